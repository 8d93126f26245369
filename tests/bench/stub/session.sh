#!/bin/sh
# The batch script of a stub session, ours and stock: `session.sh ANNOUNCE FOLDER`.
umask 077
exec "$1" "$2"
