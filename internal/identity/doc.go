// Package identity says who calls: principals and their scopes, and the credentials that prove them. It decides nothing about
// tools.
//
// A request brings exactly one credential: an access token in Authorization, or an API key in X-API-Key. An access token is a
// JWT (RFC 7519, RFC 9068) whose header has "typ" at+jwt, "kid" and "alg", and nothing that could bring a key along. Its key is
// chosen by "kid" and has one algorithm; what the token says of it must agree. Our own have the claims
//
//	iss, aud   the issuer's name and one of ours
//	sub        the principal's name in its tenant
//	tenant_id  the tenant
//	kind       agent, person or service; without it the token is refused
//	owner      the person who answers for an agent or a service
//	scopes     a list of registered scopes, "noun:*" or "admin"; it may be empty, not missing
//	groups     a list of approvers' groups; may be missing
//	jti        the token's id, by which it can be revoked
//	iat, exp   whole seconds; nbf may be there too
//
// Tokens of other issuers (OpenID Connect) are translated by the configuration, which says all that they may become.
//
// What was verified is remembered by its digest until it ends, the tenant's epoch moves or the keys are rotated. Everything that
// can't be checked is refused: what is wrong with a credential is the caller's (401), what can't be learned is ours (503). The
// package trusts its clock, its store and the keys that it was given.
package identity
