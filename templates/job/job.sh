#!/bin/sh
# The batch script of jobs that are a notebook or a Python program: constant, whoever asks and whatever they ask for.
#   job.sh notebook PYTHON FILE OUTPUT [NAME=VALUE…]
#   job.sh python FILE [ARGUMENT…]
# PYTHON is the portal's own interpreter. Modules are loaded already: they are in the environment of the job.
kind=$1
shift
# The folder where Polars puts down what memory does not hold is of one node: portal/homes/cache_folders.py.
own='case ${POLARS_OOC_SPILL_DIR:-} in
*/dsportal-polars/*) POLARS_OOC_SPILL_DIR="${POLARS_OOC_SPILL_DIR%/*}/$(uname -n)" ;;
esac'
eval "$own"
if [ "$kind" = notebook ]; then
    python=$1
    shift
    exec "$python" -I -m portal.jobs.inside "$@"
fi
[ "${SLURM_NTASKS:-1}" -gt 1 ] || exec python3 "$@"
# Since 22.05 srun does not take the cores of a task from sbatch by itself: srun(1), --cpus-per-task.
export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"
exec srun sh -c "$own"'; exec python3 "$@"' python3 "$@"
