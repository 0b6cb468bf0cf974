package api

import (
	"net/http"
	"reflect"

	"github.com/counterfoil/counterfoil/internal/identity"
)

// The methods, short enough for a table.
const (
	get  = http.MethodGet
	post = http.MethodPost
	put  = http.MethodPut
	del  = http.MethodDelete
)

// Query parameters of lists.
func paging(more ...string) []string { return append([]string{"after", "limit"}, more...) }

// table is the whole surface: what is not in it is not there.
func table() []route {
	var all []route
	for _, t := range [][]route{publicRoutes(), callRoutes(), recordRoutes(), credentialRoutes(), tenantRoutes(), systemRoutes()} {
		all = append(all, t...)
	}
	return all
}

func publicRoutes() []route {
	return []route{
		{method: get, path: "/healthz", access: open, summary: "Whether the process lives", endpoint: gives((*API).alive)},
		{method: get, path: "/readyz", access: open, summary: "Whether calls are taken", endpoint: gives((*API).readiness)},
		{method: get, path: "/openapi.json", access: open, summary: "This surface, as OpenAPI 3.1", endpoint: sends(typeJSON, (*API).openAPI)},
		{method: get, path: "/docs", access: open, summary: "This surface, as a page", endpoint: sends("text/html", (*API).docs)},
		{method: get, path: "/.well-known/oauth-protected-resource", access: public, summary: "Metadata of the protected resource (RFC 9728)", endpoint: gives((*API).protectedResource)},
		{method: get, path: "/.well-known/counterfoil/keys.json", access: public, summary: "The public keys that receipts are verified with", endpoint: sends("application/jwk-set+json", (*API).publicKeys)},
		{method: post, path: "/v1/auth/token", access: public, summary: "Log in, or refresh", endpoint: takes((*API).token)},
		{method: post, path: "/v1/auth/bootstrap", access: public, summary: "Make the first tenant and person of a server that has none", endpoint: takes((*API).bootstrap).creating()},
	}
}

func callRoutes() []route {
	return []route{
		{method: get, path: "/v1/tools", scope: identity.ScopeToolsRead, summary: "The tools of the tenant", endpoint: gives((*API).tools)},
		{method: get, path: "/v1/tools/{tool}", scope: identity.ScopeToolsRead, summary: "One tool, with its definition", endpoint: gives((*API).tool)},
		{method: post, path: "/v1/tools/{tool}/call", scope: identity.ScopeToolsExecute, summary: "Call a tool; Prefer: wait=N holds for a person's decision, Idempotency-Key makes it one call",
			endpoint: sends("", (*API).call).taking(reflect.TypeFor[callBody]()).giving(reflect.TypeFor[callAnswer]())},
		{path: "/mcp", scope: identity.ScopeToolsRead, or: identity.ScopeToolsExecute, summary: "The Model Context Protocol, over Streamable HTTP", endpoint: sends("", (*API).mcp).streaming()},
		{method: post, path: "/v1/scan", scope: identity.ScopeScanRun, summary: "Look for prompt injection in a text or a value", endpoint: takes((*API).scan)},
	}
}

func recordRoutes() []route {
	return []route{
		{method: get, path: "/v1/approvals", scope: identity.ScopeApprovalsRead, summary: "Requests for approval, newest first", query: paging("state"), endpoint: gives((*API).approvals)},
		{method: get, path: "/v1/approvals/{id}", scope: identity.ScopeApprovalsRead, summary: "One request, with the exact arguments", endpoint: gives((*API).approval)},
		{method: post, path: "/v1/approvals/{id}/approve", scope: identity.ScopeApprovalsDecide, summary: "Sign an approval of exactly this call", endpoint: takes((*API).approve)},
		{method: post, path: "/v1/approvals/{id}/deny", scope: identity.ScopeApprovalsDecide, summary: "Sign a denial of this call", endpoint: takes((*API).deny)},
		{method: get, path: "/v1/receipts", scope: identity.ScopeReceiptsRead, summary: "What ran, newest first", query: paging(), endpoint: gives((*API).receipts)},
		{method: get, path: "/v1/receipts/{id}", scope: identity.ScopeReceiptsRead, summary: "One receipt, verified", endpoint: gives((*API).receipt)},
		{method: get, path: "/v1/receipts/{id}/bundle", scope: identity.ScopeReceiptsRead, summary: "One receipt's bundle, for counterfoil-verify", query: []string{"redact"}, endpoint: sends(typeJSON, (*API).bundle)},
		{method: post, path: "/v1/receipts/verify", scope: identity.ScopeReceiptsRead, summary: "Verify a bundle of this tenant's", endpoint: sends(typeJSON, (*API).verify).taking(reflect.TypeFor[rawJSON]()).giving(reflect.TypeFor[report]())},
		{method: get, path: "/v1/audit/events", scope: identity.ScopeAuditRead, summary: "The events of the tenant's log, oldest first", query: paging(), endpoint: gives((*API).events)},
		{method: get, path: "/v1/audit/checkpoint", scope: identity.ScopeAuditRead, summary: "The newest checkpoint, a signed note", endpoint: sends("text/plain", (*API).checkpoint)},
		{method: get, path: "/v1/audit/log/{part...}", scope: identity.ScopeAuditRead, summary: "Checkpoint and tiles, as C2SP tlog-tiles has them", endpoint: sends("application/octet-stream", (*API).tiles).streaming()},
		{method: get, path: "/v1/audit/proof", scope: identity.ScopeAuditRead, summary: "Proof that an event is in the log", query: []string{"about", "phase"}, endpoint: gives((*API).proof)},
		{method: get, path: "/v1/audit/consistency", scope: identity.ScopeAuditRead, summary: "Proof that the log only grew since a size", query: []string{"from"}, endpoint: gives((*API).consistency)},
		{method: get, path: "/v1/audit/export", scope: identity.ScopeAuditRead, summary: "The whole log, as lines or CSV", query: []string{"format"}, endpoint: sends("application/jsonl", (*API).export).streaming()},
	}
}

func credentialRoutes() []route {
	return []route{
		{method: post, path: "/v1/auth/logout", scope: identity.ScopeToolsRead, or: identity.ScopeApprovalsRead, summary: "End a refresh credential and all that followed it", endpoint: takes((*API).logout)},
		{method: get, path: "/v1/keys", scope: identity.ScopeKeysRead, summary: "API keys: all for an administrator, else one's own", query: paging(), endpoint: gives((*API).keys)},
		{method: post, path: "/v1/keys", scope: identity.ScopeKeysWrite, summary: "Make an API key; its text is in this answer alone", endpoint: takes((*API).mintKey).creating()},
		{method: post, path: "/v1/keys/{id}/rotate", scope: identity.ScopeKeysWrite, summary: "Replace an API key", endpoint: takes((*API).rotateKey).creating()},
		{method: del, path: "/v1/keys/{id}", scope: identity.ScopeKeysWrite, summary: "End an API key at once", endpoint: gives((*API).revokeKey)},
		{method: get, path: "/v1/users", scope: identity.ScopeUsersWrite, summary: "The people of the tenant", query: paging(), endpoint: gives((*API).users)},
		{method: post, path: "/v1/users", scope: identity.ScopeUsersWrite, summary: "Make a person who can log in", endpoint: takes((*API).createUser).creating()},
		{method: put, path: "/v1/users/{name}/rights", scope: identity.ScopeUsersWrite, summary: "Replace a person's scopes and groups", endpoint: takes((*API).setRights)},
		{method: put, path: "/v1/users/{name}/password", scope: identity.ScopeUsersWrite, summary: "Give a person another password; ends what they were issued", endpoint: takes((*API).setPassword)},
		{method: post, path: "/v1/users/{name}/disable", scope: identity.ScopeUsersWrite, summary: "Shut a person out at once", endpoint: gives((*API).disableUser)},
		{method: post, path: "/v1/users/{name}/enable", scope: identity.ScopeUsersWrite, summary: "Let a person in again", endpoint: gives((*API).enableUser)},
		{method: post, path: "/v1/auth/password", scope: identity.ScopeApprovalsRead, or: identity.ScopeToolsRead, summary: "Change one's own password", endpoint: takes((*API).changePassword)},
		{method: get, path: "/v1/secrets", scope: identity.ScopeSecretsRead, summary: "Names and versions of secrets, never values", query: paging(), endpoint: gives((*API).secrets)},
		{method: get, path: "/v1/secrets/{name}", scope: identity.ScopeSecretsRead, summary: "The versions of one secret", endpoint: gives((*API).secret)},
		{method: put, path: "/v1/secrets/{name}", scope: identity.ScopeSecretsWrite, summary: "Keep a secret, as a new version", endpoint: takes((*API).putSecret).creating()},
		{method: del, path: "/v1/secrets/{name}", scope: identity.ScopeSecretsWrite, summary: "Delete a secret, or one version", query: []string{"version"}, endpoint: gives((*API).deleteSecret)},
	}
}

func tenantRoutes() []route {
	return []route{
		{method: get, path: "/v1/tenant", scope: identity.ScopeTenantAdmin, summary: "One's own tenant: settings, epoch, what is frozen", endpoint: gives((*API).ownTenant)},
		{method: put, path: "/v1/tenant/scopes", scope: identity.ScopeTenantAdmin, summary: "Replace what one's tenant denies and asks about", endpoint: takes((*API).setScopes)},
		{method: post, path: "/v1/tenant/freeze", scope: identity.ScopeTenantAdmin, summary: "Stop the tenant, an agent, an upstream or a tool at once", endpoint: takes((*API).freeze)},
		{method: post, path: "/v1/tenant/unfreeze", scope: identity.ScopeTenantAdmin, summary: "Let something go on that another person froze", endpoint: takes((*API).unfreeze)},
		{method: get, path: "/v1/hooks", scope: identity.ScopeHooksWrite, summary: "The hooks that run for the tenant", endpoint: gives((*API).hooks)},
		{method: get, path: "/v1/hooks/{id}", scope: identity.ScopeHooksWrite, summary: "One hook", endpoint: gives((*API).hook)},
		{method: post, path: "/v1/hooks", scope: identity.ScopeHooksWrite, summary: "Define a hook; a callback's secret is in this answer alone", endpoint: takes((*API).createHook).creating()},
		{method: put, path: "/v1/hooks/{id}", scope: identity.ScopeHooksWrite, summary: "Change a hook that stands at a version", endpoint: takes((*API).changeHook)},
		{method: del, path: "/v1/hooks/{id}", scope: identity.ScopeHooksWrite, summary: "Remove a hook", endpoint: gives((*API).deleteHook)},
		{method: post, path: "/v1/hooks/{id}/rotate", scope: identity.ScopeHooksWrite, summary: "Give a callback another secret", endpoint: takes((*API).rotateHook)},
		{method: post, path: "/v1/hooks/{id}/test", scope: identity.ScopeHooksWrite, summary: "Run a hook once, with an event that says so", endpoint: gives((*API).tryHook)},
	}
}

func systemRoutes() []route {
	return []route{
		{method: get, path: "/v1/tenants", scope: identity.ScopeSystemAdmin, summary: "All tenants", query: paging(), endpoint: gives((*API).tenants)},
		{method: post, path: "/v1/tenants", scope: identity.ScopeSystemAdmin, summary: "Make a tenant", endpoint: takes((*API).createTenant).creating()},
		{method: get, path: "/v1/tenants/{tenant}", scope: identity.ScopeSystemAdmin, summary: "One tenant", endpoint: gives((*API).oneTenant)},
		{method: put, path: "/v1/tenants/{tenant}", scope: identity.ScopeSystemAdmin, summary: "Replace a tenant's settings", endpoint: takes((*API).configureTenant)},
		{method: post, path: "/v1/tenants/{tenant}/first-user", scope: identity.ScopeSystemAdmin, summary: "Make the first person of a tenant that has none", endpoint: takes((*API).firstUser).creating()},
		{method: get, path: "/v1/admin/rate-limits", scope: identity.ScopeSystemAdmin, summary: "What was used, of all tenants", query: []string{"tenant", "principal", "limit"}, endpoint: gives((*API).quotas)},
		{method: get, path: "/v1/admin/rate-limits/tiers", scope: identity.ScopeSystemAdmin, summary: "The tiers and their numbers", endpoint: gives((*API).tiers)},
		{method: get, path: "/v1/admin/rate-limits/{tenant}", scope: identity.ScopeSystemAdmin, summary: "What a tenant's principals have used", query: paging(), endpoint: gives((*API).tenantQuotas)},
		{method: put, path: "/v1/admin/rate-limits/{tenant}/tier", scope: identity.ScopeSystemAdmin, summary: "Set a tenant's tier; what was used stays used", endpoint: takes((*API).setTier)},
		{method: post, path: "/v1/admin/rate-limits/{tenant}/reset", scope: identity.ScopeSystemAdmin, summary: "Forget what a tenant's principals have used", endpoint: gives((*API).resetRates)},
	}
}

func withoutMCP(routes []route) []route {
	var list []route
	for _, r := range routes {
		if r.path != "/mcp" {
			list = append(list, r)
		}
	}
	return list
}
