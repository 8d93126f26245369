#!/bin/sh
# The batch script of every session: constant, whoever asks and whatever they ask for.
#   session.sh PYTHON FOLDER
# PYTHON is the portal's own interpreter, FOLDER the session's private folder. Nothing of a person's choice is
# in here: partition, GPUs and hours are options of sbatch, the token is in a file that only the person can read.
# -I: nothing is imported from the person's home. No shell start-up file and no module is loaded; kernels load their modules themselves.
umask 077
exec "$1" -I -m portal.singleuser.server "$2"
