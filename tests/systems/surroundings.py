"""What the guide takes for granted, made with Debian's own packages and units: Slurm, munge, LDAP, modules, people.

The names are those of the page's own example, so that its settings file is used as it stands.
"""

from __future__ import annotations

from tests.systems.machine import Machine

ADDRESS = "10.201.0.1"  # not 127.0.0.1 alone: glibc's look-ups would then fail for Slurm
NAME = "portal.example.org"
NAMES = f"{NAME} portal ldap1.example.org ldap2.example.org"
PEOPLE = ("alice", "bob")
GROUP = "hpcusers"
CA_FILE = "/usr/local/share/ca-certificates/site.crt"

SLURM = """\
ClusterName=site
SlurmctldHost=portal
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=1,sched_min_interval=0,batch_sched_delay=0
MailProg=/bin/true
EnforcePartLimits=ALL
KillWait=5
ReturnToService=2
GresTypes=gpu
NodeName=portal CPUs=32 RealMemory=256000 Gres=gpu:4 State=UNKNOWN
PartitionName=gpu Nodes=portal Default=YES MaxTime=1-0 DefMemPerCPU=1000 State=UP
"""
SLAPD = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb.la
TLSCertificateFile /etc/ldap/site.crt
TLSCertificateKeyFile /etc/ldap/site.key
security ssf=128
localSSF 256
database mdb
suffix "dc=example,dc=org"
directory /var/lib/ldap-site
access to attrs=userPassword by anonymous auth by * none
access to * by * read
"""
SLAPD_UNIT = """\
[Service]
Type=forking
ExecStart=/usr/sbin/slapd -h ldap:/// -u openldap -g openldap -f /etc/ldap/site.conf
[Install]
WantedBy=multi-user.target
"""
HOST_UNIT = f"""\
[Unit]
Before=network-online.target dnsmasq.service slapd-site.service slurmctld.service slurmd.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=ip address add {ADDRESS}/32 dev lo
ExecStart=touch /dev/nvidia0 /dev/nvidia1 /dev/nvidia2 /dev/nvidia3
[Install]
WantedBy=multi-user.target
"""
PERSON = """\
dn: uid={name},ou=people,dc=example,dc=org
objectClass: inetOrgPerson
uid: {name}
cn: {name}
sn: {name}
userPassword: {name}-demo
"""
TREE = """\
dn: dc=example,dc=org
objectClass: dcObject
objectClass: organization
dc: example
o: Example

dn: ou=people,dc=example,dc=org
objectClass: organizationalUnit
ou: people

dn: ou=groups,dc=example,dc=org
objectClass: organizationalUnit
ou: groups

dn: cn=jupyter,ou=groups,dc=example,dc=org
objectClass: groupOfNames
cn: jupyter
{members}

dn: cn=portal-admins,ou=groups,dc=example,dc=org
objectClass: groupOfNames
cn: portal-admins
member: uid=bob,ou=people,dc=example,dc=org
"""
MODULES = {  # as Bright has them; the kernel is Debian's own python3-ipykernel
    "local/modulefiles/shared": "#%Module\nappend-path MODULEPATH /cm/shared/modulefiles\n",
    "shared/modulefiles/shared/python": "#%Module\nsetenv SITE_PYTHON yes\n",
}


def prepare(machine: Machine) -> None:
    """Everything of the page's table "Before you start"."""
    machine.write("/etc/systemd/system/site-host.service", HOST_UNIT)
    machine.sh("systemctl enable --now site-host")
    machine.write("/etc/hosts", f"127.0.0.1 localhost\n{ADDRESS} {NAMES}\n")
    # The record *.portal.example.org, which a file of hosts cannot hold.
    machine.write(
        "/etc/dnsmasq.conf", f"address=/{NAME}/{ADDRESS}\nlisten-address=127.0.0.1\nbind-interfaces\nno-resolv\n"
    )
    machine.sh("echo nameserver 127.0.0.1 > /etc/resolv.conf; systemctl enable --now dnsmasq")
    machine.sh(f"groupadd {GROUP}")
    for name in PEOPLE:
        machine.sh(f"useradd --create-home --shell /bin/bash --gid {GROUP} {name}; chmod 700 /home/{name}")
    make_certificates(machine)
    start_directory(machine)
    start_slurm(machine)
    for file, text in MODULES.items():
        machine.write(f"/cm/{file}", text)


def make_certificates(machine: Machine) -> None:
    """An authority that the machine trusts, and one certificate for all its names."""
    names = ",".join(f"DNS:{name}" for name in [*NAMES.split(), f"*.{NAME}"])
    machine.sh(f"""
        mkdir -p /root/ca
        cd /root/ca
        openssl req -x509 -newkey rsa:2048 -nodes -days 90 -subj /CN=site -keyout ca.key -out ca.crt \\
            -addext keyUsage=critical,keyCertSign,cRLSign
        openssl req -newkey rsa:2048 -nodes -subj /CN=portal -keyout portal.key -out portal.csr
        printf 'subjectAltName={names}\\nauthorityKeyIdentifier=keyid\\n' > names
        openssl x509 -req -in portal.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 90 \\
            -extfile names -out portal.crt
        cp ca.crt {CA_FILE}
        update-ca-certificates
    """)


def start_directory(machine: Machine) -> None:
    """An LDAP server with StartTLS, under both names of the example."""
    members = "\n".join(f"member: uid={name},ou=people,dc=example,dc=org" for name in PEOPLE)
    people = "\n".join(PERSON.format(name=name) for name in PEOPLE)
    machine.write("/etc/ldap/site.conf", SLAPD)
    machine.write("/etc/systemd/system/slapd-site.service", SLAPD_UNIT)
    machine.write("/root/tree.ldif", f"{TREE.format(members=members)}\n{people}")
    machine.sh("""
        install -o openldap -m 600 /root/ca/portal.key /etc/ldap/site.key
        install -m 644 /root/ca/portal.crt /etc/ldap/site.crt
        install -d -o openldap /var/lib/ldap-site
        slapadd -f /etc/ldap/site.conf -l /root/tree.ldif
        chown openldap /var/lib/ldap-site/*
        systemctl enable --now slapd-site
    """)


def start_slurm(machine: Machine) -> None:
    """One node, which is this host as well."""
    machine.write("/etc/slurm/slurm.conf", SLURM)
    machine.write("/etc/slurm/gres.conf", "Name=gpu File=/dev/nvidia[0-3]\n")  # nothing is behind them
    # No cgroups for jobs: a machine like this one has no controllers. 22.05 has no word for that, but takes version 1.
    plugin = "cgroup/v1" if " 22." in machine.sh("slurmd -V") else "disabled"
    machine.write("/etc/slurm/cgroup.conf", f"CgroupPlugin={plugin}\n")
    machine.sh(
        "install -d -o slurm /var/lib/slurm /var/lib/slurm/slurmctld; systemctl enable --now munge slurmctld slurmd"
    )
