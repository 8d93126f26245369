# frozen_string_literal: true

# The first file of a Ruby kernel that is started in a folder that others can change. IRB (1.13 and later) loads .irbrc,
# irbrc, _irbrc and $irbrc of that folder whatever IRBRC says: here it finds none there. What is prepended comes before
# IRB's own methods, which are defined later. What a cell starts, or submits, is not told of this file.
module IRB
  module OfHome
    FOLDERS = "PORTAL_KERNEL_FOLDERS" # the session's own, which goes with it, and those in which a copy of this lies
    OURS = ENV.fetch(FOLDERS, __dir__).split(":")

    def setup(...)
      OfHome.hand_on_nothing
      super
    end

    def self.hand_on_nothing
      without("RUBYOPT", " ", ["-r#{File.basename(__FILE__, ".rb")}"])
      without("RUBYLIB", ":", OURS)
      ENV.delete(FOLDERS)
    end

    def self.without(name, mark, ours)
      left = ENV.fetch(name, "").split(mark) - ours
      ENV[name] = left.empty? ? nil : left.join(mark)
    end

    private

    def generate_current_dir_irbrc_files
      []
    end
  end
  OfHome.without("RUBYLIB", ":", ["#{OfHome::OURS.first}/startup"] - [__dir__]) # a job would find another's of that name
  singleton_class.prepend OfHome
end
