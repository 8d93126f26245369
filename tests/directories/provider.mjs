// An OpenID provider (oidc-provider of npm) for the tests: who may log in, and with which groups, is in a file that is
// read anew each time. Its development pages take any password.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, port, accounts, callback] = process.argv.slice(2);
const found = createRequire(`${modules}/here.js`).resolve("oidc-provider");
const { default: Provider } = await import(pathToFileURL(found));

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: "portal",
      client_secret: "a-secret-of-the-provider",
      redirect_uris: [callback],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
    },
  ],
  claims: { openid: ["sub"], profile: ["preferred_username"], groups: ["groups"] },
  scopes: ["openid", "offline_access", "profile", "groups"],
  findAccount(_context, id) {
    const told = JSON.parse(readFileSync(accounts))[id];
    return told && { accountId: id, claims: async () => ({ sub: id, ...told }) };
  },
});
provider.listen(Number(port), "127.0.0.1");
