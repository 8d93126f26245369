"""What a release is: a tarball that installs without a checkout and without a network."""
