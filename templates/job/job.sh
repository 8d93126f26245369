#!/bin/sh
# The batch script of jobs that are a notebook or a Python program: constant, whoever asks and whatever they ask for.
#   job.sh notebook WORK PLACE KEPT PYTHON FILE OUTPUT [NAME=VALUE…]
#   job.sh python WORK PLACE KEPT FILE [ARGUMENT…]
# WORK, PLACE: whose the folder to work in, and that of FILE, were when the job was submitted, by UID, and a "c" where
# nobody else could change what is in it; "-" where nobody else can exchange it (portal/jobs/submit.py). Behind WORK and
# a ":" stands where that is without links; FILE is without any where others can exchange it.
# KEPT: the folder with the copy of FILE that runs, where others can change FILE (portal/jobs/kept.py); otherwise "-".
# PYTHON is the portal's own interpreter. Modules are loaded already: they are in the environment of the job.
kind=$1 work=$2 place=$3 kept=$4
shift 4
file=$1
[ "$kind" = python ] || file=$2
look() {
    [ "$2" != - ] || return 0
    found=$(stat -Lc '%u %a' -- "$1") || { echo 'Nothing was run.' >&2; exit 1; }
    case $2:$found in
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
    way=$1
    while [ -n "$way" ]; do
        above=${way%/*}
        # A link of root's where root alone puts some is of this node: what is mounted may be elsewhere on another one.
        ! [ -h "$way" ] || case $(stat -c %u -- "$way"):$(stat -Lc '%u %a' -- "${above:-/}") in
        0:"0 "*[0145][0145]) ;;
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
[ "$place" = - ] || stays "${file%/*}"
look "${file%/*}/." "$place"
case $kept in
-) ;;
/*)
    [ -d "$kept" ] || {
        echo "The copy of $file that was kept when this job was submitted is gone: $kept. Nothing was run." \
            'Submit the job again.' >&2
        exit 1
    }
    look "$kept/." "$(id -u)c"
    ;;
*)
    echo 'The session that submitted this job is older than the portal. Nothing was run. Start a new session, and' \
        'submit the job again.' >&2
    exit 1
    ;;
esac
# The folder where Polars puts down what memory does not hold is of one node: portal/homes/cache_folders.py.
own='case ${POLARS_OOC_SPILL_DIR:-} in
*/dsportal-polars/*) POLARS_OOC_SPILL_DIR="${POLARS_OOC_SPILL_DIR%/*}/$(uname -n)" ;;
esac'
eval "$own"
if [ "$kind" = notebook ]; then
    python=$1
    shift
    [ "$kept" = - ] || set -- --kept "$kept" "$@"
    exec "$python" -I -m portal.jobs.inside "$@"
fi
[ "$kept" = - ] || set -- "$kept/begin" "$@"
[ "${SLURM_NTASKS:-1}" -gt 1 ] || exec python3 "$@"
# Since 22.05 srun does not take the cores of a task from sbatch by itself: srun(1), --cpus-per-task.
export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"
exec srun sh -c "$own"'; exec python3 "$@"' python3 "$@"
