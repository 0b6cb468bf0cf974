// An OpenID Connect issuer on loopback for the tests, built on oidc-provider.
//
//	node oidc.mjs '{"alg":"ES256","port":0,"clients":{"agent":{"tenant_id":"acme"}}}'
//
// It makes new keys for alg, listens on 127.0.0.1 (port 0: any), and prints one JSON line: {"issuer":"http://127.0.0.1:…"}.
// Each of clients may ask /token for an access token (client_credentials, the secret is the client's name and "-secret"), which
// has its members as claims and the parameter "resource" as its audience. It ends with its standard input, after a minute at
// the latest.
import { createServer } from "node:http";
import { exportJWK, generateKeyPair } from "jose";
import { Provider } from "oidc-provider";

const { alg, port = 0, clients } = JSON.parse(process.argv[2]);
const { privateKey } = await generateKeyPair(alg, { extractable: true });
const key = { ...(await exportJWK(privateKey)), alg, use: "sig", kid: `${alg}-${Date.now()}` };

const server = createServer();
await new Promise((ready) => server.listen(port, "127.0.0.1", ready));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: Object.keys(clients).map((name) => ({
    client_id: name,
    client_secret: `${name}-secret`,
    grant_types: ["client_credentials"],
    redirect_uris: [],
    response_types: [],
    id_token_signed_response_alg: alg,
    token_endpoint_auth_method: "client_secret_post",
  })),
  jwks: { keys: [key] },
  enabledJWA: { idTokenSigningAlgValues: [alg] },
  extraTokenClaims: (_, token) => clients[token.clientId],
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_, audience) => ({
        audience,
        scope: "tools:read tools:execute approvals:decide",
        accessTokenFormat: "jwt",
        accessTokenTTL: 600,
        jwt: { sign: { alg } },
      }),
    },
  },
});
server.on("request", provider.callback());
console.log(JSON.stringify({ issuer }));

const end = () => process.exit(0);
process.stdin.on("end", end).resume();
setTimeout(end, 60_000);
