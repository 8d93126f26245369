"""The stock parts as they come: JupyterHub, batchspawner.SlurmSpawner, ldapauthenticator.

Only what a site has to set, and three things that would else end the comparison early: pending sessions may wait
(stock: cancelled after 300 s), any number may start at once (stock: 100), and sessions outlive the hub.
"""

import json
import os

import batchspawner.api
from jupyterhub.apihandlers import default_handlers

bench = json.loads(os.environ["DSPORTAL_BENCH"])
folder = bench["folder"]

# Our spawners stand in the same environment; JupyterHub imports them for its own help, and they take this address out.
default_handlers.append((r"/api/batchspawner", batchspawner.api.BatchSpawnerAPIHandler))

c = get_config()  # type: ignore[name-defined]  # noqa: F821  JupyterHub's
c.JupyterHub.bind_url = f"http://127.0.0.1:{bench['port']}"
c.JupyterHub.hub_bind_url = f"http://0.0.0.0:{bench['hub_port']}"
c.JupyterHub.hub_connect_url = f"http://127.0.0.1:{bench['hub_port']}"
c.JupyterHub.db_url = f"sqlite:///{folder}/jupyterhub.sqlite"
c.JupyterHub.cookie_secret_file = f"{folder}/cookie_secret"
c.JupyterHub.pid_file = f"{folder}/hub.pid"
c.JupyterHub.cleanup_servers = False
c.JupyterHub.concurrent_spawn_limit = 0
c.ConfigurableHTTPProxy.command = bench["proxy"]
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{bench['proxy_port']}"
c.ConfigurableHTTPProxy.auth_token = bench["proxy_token"]
c.ConfigurableHTTPProxy.pid_file = f"{folder}/proxy.pid"
c.JupyterHub.services = [{"name": "bench", "api_token": bench["token"]}]
c.JupyterHub.load_roles = [{"name": "bench", "services": ["bench"], "scopes": bench["scopes"]}]

c.JupyterHub.spawner_class = "batchspawner.SlurmSpawner"
c.SlurmSpawner.req_partition = "sxm2"
c.SlurmSpawner.req_runtime = "8:00:00"
c.SlurmSpawner.req_nprocs = bench["cores"]
c.SlurmSpawner.req_memory = bench["memory"]
c.SlurmSpawner.start_timeout = 86400
c.SlurmSpawner.batchspawner_singleuser_cmd = f"{bench['venv']}/bin/batchspawner-singleuser"
c.Spawner.cmd = [f"{bench['venv']}/bin/jupyterhub-singleuser"]
c.Spawner.http_timeout = 120
if bench["stub"]:
    c.SlurmSpawner.batch_script = f"""#!/bin/sh
#SBATCH --output=/dev/null
#SBATCH --job-name=spawner-jupyterhub
#SBATCH --chdir={{{{homedir}}}}
#SBATCH --export={{{{keepvars}}}}
#SBATCH --partition={{{{partition}}}}
#SBATCH --time={{{{runtime}}}}
#SBATCH --mem={{{{memory}}}}
#SBATCH --cpus-per-task={{{{nprocs}}}}
exec {bench["stub"]}
"""

c.JupyterHub.authenticator_class = "ldapauthenticator.LDAPAuthenticator"
c.LDAPAuthenticator.server_address = "127.0.0.1"
c.LDAPAuthenticator.server_port = 3890  # StartTLS before the bind is its default
c.LDAPAuthenticator.tls_kwargs = {"ca_certs_file": "/etc/dsportal/ldap-ca.crt", "validate": 2}  # ssl.CERT_REQUIRED
c.LDAPAuthenticator.bind_dn_template = ["uid={username},ou=people,dc=cluster,dc=example"]
c.LDAPAuthenticator.allowed_groups = ["cn=jupyter,ou=groups,dc=cluster,dc=example"]
c.LDAPAuthenticator.group_search_filter = "(member={userdn})"
c.LDAPAuthenticator.group_attributes = ["cn"]
