#!/bin/sh
# The batch script of jobs that are a notebook or a Python program: constant, whoever asks and whatever they ask for.
#   job.sh notebook WORK PLACE CONTENT PYTHON FILE OUTPUT [NAME=VALUE…]
#   job.sh python WORK PLACE CONTENT FILE [ARGUMENT…]
# WORK, PLACE, CONTENT: whose the folder to work in, that of FILE, and FILE were when the job was submitted, by UID, and a
# "c" where nobody else could change what is in it; "-" where nobody else can exchange it (portal/jobs/submit.py). Behind
# WORK and a ":" stands where that is without links; FILE is without any where others can exchange it.
# PYTHON is the portal's own interpreter. Modules are loaded already: they are in the environment of the job.
# Where others can exchange FILE it is looked at when it is open, and what was in it then is what runs.
kind=$1 work=$2 place=$3 content=$4
shift 4
file=$1
[ "$kind" = python ] || file=$2
look() {
    [ "$2" != - ] || return 0
    found=$(stat -Lc '%u %a' -- "${4:-$1}") || { echo 'Nothing was run.' >&2; exit 1; }
    was=$2
    case ${3-}${2%c} in
    shared0 | "shared$(id -u)") ;;
    shared*) # a colleague's: another one may have saved it anew, but not where each has files of one's own
        case $(stat -Lc %a -- "${1%/*}/.") in
        [0-7][0-7][0-7] | [246][0-7][0-7][0-7]) was=${found% *}${2##*[0-9]} ;;
        esac
        ;;
    esac
    case $was:$found in
    *[0-9]:"$(id -u) "*) ;;
    "${found% *}":* | "${found% *}c":*[0145][0145]) ;;
    *)
        echo "$1 belongs to somebody else than when this job was submitted, or is open to others and was not. Nothing was" \
            'run. Look at what is there now, and submit the job again.' >&2
        exit 1
        ;;
    esac
}
stays() {
    way=$1 real=$1
    while [ -n "$way" ]; do
        above=${way%/*}
        # A link of root's where root alone puts some is of this node: what is mounted may be elsewhere on another one.
        ! [ -h "$way" ] || case $(stat -c %u -- "$way"):$(stat -Lc '%u %a' -- "${above:-/}") in
        0:"0 "*[0145][0145]) [ "$real" != "$1" ] || real=$(readlink -f -- "$way")${1#"$way"} ;;
        *)
            echo "$way is a link now, and was none when this job was submitted. Nothing was run." \
                'Look at what is there now, and submit the job again.' >&2
            exit 1
            ;;
        esac
        way=$above
    done
}
case $work in
*:*)
    stays "${work#*:}"
    [ . -ef "${work#*:}" ] || { echo "${work#*:} is not where this job works. Nothing was run." >&2; exit 1; }
    ;;
esac
look . "${work%%:*}"
look "${file%/*}/." "$place"
if [ "$content" != - ]; then
    [ -f "$file" ] || { echo "No such file: $file. Nothing was run." >&2; exit 1; }
    exec <"$file"
    stays "$file"
    [ "$(readlink /proc/self/fd/0)" = "$real" ] || {
        echo "$file was exchanged while this job began. Nothing was run." \
            'Look at what is there now, and submit the job again.' >&2
        exit 1
    }
    look "$file" "$content" shared /dev/stdin
fi
# The folder where Polars puts down what memory does not hold is of one node: portal/homes/cache_folders.py.
own='case ${POLARS_OOC_SPILL_DIR:-} in
*/dsportal-polars/*) POLARS_OOC_SPILL_DIR="${POLARS_OOC_SPILL_DIR%/*}/$(uname -n)" ;;
esac'
eval "$own"
if [ "$kind" = notebook ]; then
    python=$1
    shift
    [ "$content" = - ] || set -- --opened "$@"
    exec "$python" -I -m portal.jobs.inside "$@"
fi
# It begins as by `python3 FILE`, with what was looked at, in each task. From 3.13 on Python imports for -c some modules
# before the first word, out of the folder that the job works in: not with PYTHONSAFEPATH.
if [ "$content" != - ]; then
    sum=$(sha256sum)
    exec </dev/null
    export PYTHONSAFEPATH="${PYTHONSAFEPATH:-portal-job}" PORTAL_JOB_BEGINS=1
    set -- -c 'def _begin():
    import os, sys
    is_ours = os.environ.get("PYTHONSAFEPATH") == "portal-job"
    if sys.path[:1] == [""]:  # before 3.11
        del sys.path[0]
        is_ours = True
    import hashlib
    _, wanted, file = sys.argv[:3]
    opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(opened, "rb") as read:
        text = read.read()
    if hashlib.sha256(text).hexdigest() != wanted:
        sys.exit(file + " was exchanged while this job began. Nothing was run. "
                 "Look at what is there now, and submit the job again.")
    del sys.argv[:2]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[1:] = sys.argv
    globals().update(__file__=file, __cached__=None)
    os.environ.pop("PORTAL_JOB_BEGINS", None)
    if os.environ.get("PYTHONSAFEPATH") == "portal-job":
        del os.environ["PYTHONSAFEPATH"]
    if is_ours:
        sys.path.insert(0, os.path.dirname(file))
    return compile(text, file, "exec", dont_inherit=True)
exec(globals().pop("_begin")())' "${sum%% *}" "$@"
fi
[ "${SLURM_NTASKS:-1}" -gt 1 ] || exec python3 "$@"
# Since 22.05 srun does not take the cores of a task from sbatch by itself: srun(1), --cpus-per-task.
export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"
exec srun sh -c "$own"'; exec python3 "$@"' python3 "$@"
