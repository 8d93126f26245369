# frozen_string_literal: true

# The first file of a Ruby kernel that is started in a folder that others can change. IRB (1.13 and later) loads .irbrc,
# irbrc, _irbrc and $irbrc of that folder whatever IRBRC says: here it finds none there. What is prepended comes before
# IRB's own method, which is defined later.
module IRB
  module OfHome
    private

    def generate_current_dir_irbrc_files
      []
    end
  end
  singleton_class.prepend OfHome
end
