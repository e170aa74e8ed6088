#!/usr/bin/env bash
# A real SLURM for the tests, on Debian as root, without systemd, cgroups or GPUs: cluster.sh up | down FOLDER.
# Two nodes, n1 and n2, each a slurmd on this machine with half of its memory, all of its cores, and eight pretend A100s: device files
# that SLURM counts and hands out, and nothing can compute with. `down` stops what `up` started, by their process ids, and restores the
# configuration that was there.
set -euo pipefail
action=${1:?up or down} prefix=${2:?a folder for state and logs}
host=$(hostname -s)
say() { echo "cluster.sh: $*"; }
fail() { say "$*" >&2; tail -n 20 "$prefix"/*.log >&2 2>/dev/null || true; exit 1; }
answers() { for _ in $(seq 100); do "$@" >/dev/null 2>&1 && return 0; sleep 0.2; done; return 1; }
lives() { [ -s "$1" ] && [ -d "/proc/$(cat "$1")" ]; }

install_packages() {
    local package missing=()
    for package in munge slurmctld slurmd slurm-client slurm-wlm-basic-plugins; do
        dpkg -s "$package" 2>/dev/null | grep -q '^Status: install ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$prefix/apt.log" 2>&1 ||
        fail "could not install ${missing[*]}"
}

start_munge() {
    munge -n </dev/null 2>/dev/null | unmunge >/dev/null 2>&1 && return # another's; not ours to stop
    # What systemd-tmpfiles would have made.
    install -d -o munge -g munge -m 0755 /run/munge
    install -d -o munge -g munge -m 0700 /var/log/munge /var/lib/munge /etc/munge
    [ -s /etc/munge/munge.key ] || (umask 077 && head -c 1024 /dev/urandom >/etc/munge/munge.key)
    chown munge:munge /etc/munge/munge.key && chmod 400 /etc/munge/munge.key
    setpriv --reuid=munge --regid=munge --clear-groups /usr/sbin/munged
    cp /run/munge/munged.pid "$prefix/munged.pid"
}

configure() {
    local gpu
    getent hosts "$host" >/dev/null || echo "127.0.0.1 $host" >>/etc/hosts # or slurmctld refuses to start
    mkdir -p /etc/slurm "$prefix"/{state,gpu}
    for file in slurm.conf gres.conf cgroup.conf; do
        [ -e "$prefix/$file.before" ] || [ ! -e "/etc/slurm/$file" ] || cp "/etc/slurm/$file" "$prefix/$file.before"
    done
    : >"$prefix/configured"
    # Here and nowhere else: the plugin's job steps drop SLURM_CONF from the environment.
    cat >/etc/slurm/slurm.conf <<CONF
ClusterName=pretend
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
SlurmctldPidFile=$prefix/slurmctld.pid
SlurmdPidFile=$prefix/slurmd.%n.pid
StateSaveLocation=$prefix/state
SlurmdSpoolDir=$prefix/spool.%n
SlurmctldLogFile=$prefix/slurmctld.log
SlurmdLogFile=$prefix/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
# Believe what is written here, not the hardware.
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
DefMemPerCPU=1000
# squeue must still show a job that ended when Snakemake asks for it.
MinJobAge=600
KillWait=10
SchedulerParameters=bf_interval=5
NodeName=n[1-2] NodeHostname=$host NodeAddr=127.0.0.1 Port=[17001-17002] CPUs=$(nproc) Sockets=1 CoresPerSocket=$(nproc) ThreadsPerCore=1 \
RealMemory=$(free -m | awk '/^Mem:/ {print int($2 / 2)}') Gres=gpu:a100:8 State=UNKNOWN
PartitionName=cpu Nodes=n[1-2] Default=YES MaxTime=1-00:00:00 State=UP
PartitionName=gpu Nodes=n[1-2] MaxTime=7-00:00:00 State=UP
CONF
    # Only a character device makes slurmd set CUDA_VISIBLE_DEVICES; these have the number of /dev/null.
    for gpu in $(seq 0 7); do
        [ -c "$prefix/gpu/nvidia$gpu" ] || mknod -m 666 "$prefix/gpu/nvidia$gpu" c 1 3
    done
    printf 'AutoDetect=off\nNodeName=n[1-2] Name=gpu Type=a100 File=%s/gpu/nvidia[0-7]\n' "$prefix" >/etc/slurm/gres.conf
    # SLURM 23.11 and later must be told that there are no cgroups; 22.05 doesn't know the word.
    case "$(slurmd -V)" in *" 22."*) echo "# no cgroups" >/etc/slurm/cgroup.conf ;; *) echo CgroupPlugin=disabled >/etc/slurm/cgroup.conf ;; esac
}

idle() { [ "$(sinfo -h -N -p cpu -o %T | grep -cxE 'idle|mixed|allocated')" = 2 ]; }

up() {
    [ "$(id -u)" = 0 ] || fail "starting SLURM needs root"
    for program in slurmctld slurmd; do
        pgrep -x "$program" >/dev/null && fail "a $program is running here already; this would overwrite its configuration"
    done
    mkdir -p "$prefix"
    install_packages
    start_munge
    answers bash -c 'munge -n </dev/null | unmunge' || fail "munge does not answer"
    configure
    slurmctld
    answers scontrol ping || fail "slurmctld does not answer"
    for node in n1 n2; do slurmd -N "$node"; done
    answers idle || { scontrol update NodeName=n1,n2 State=RESUME || true; answers idle || fail "the nodes do not come up"; }
    say "$(slurmd -V), $(sinfo -h -o '%P %c CPUs %m MB %G' | tr '\n' ';')"
}

stop() { # PROGRAM PIDFILE
    lives "$2" || return 0
    local pid
    pid=$(cat "$2")
    [ "$(cat "/proc/$pid/comm")" = "$1" ] || return 0 # the number belongs to another process by now
    kill "$pid"
    for _ in $(seq 50); do [ -d "/proc/$pid" ] || break; sleep 0.2; done
    if [ -d "/proc/$pid" ]; then kill -9 "$pid"; fi
    rm -f "$2"
    say "stopped $1"
}

down() {
    [ -e "$prefix/configured" ] || return 0 # nothing was begun
    scancel --user="$(id -un)" 2>/dev/null && sleep 1
    for node in n1 n2; do stop slurmd "$prefix/slurmd.$node.pid"; done
    stop slurmctld "$prefix/slurmctld.pid"
    stop munged "$prefix/munged.pid"
    for file in slurm.conf gres.conf cgroup.conf; do
        if [ -e "$prefix/$file.before" ]; then mv "$prefix/$file.before" "/etc/slurm/$file"; else rm -f "/etc/slurm/$file"; fi
    done
}

"$action"
