"""What others leave for Alice, or lead her to, in one session of hers that all these tests share."""
