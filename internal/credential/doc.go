// Package credential keeps what people and programs prove themselves with: API keys, passwords, refresh credentials, and the
// one credential that a server without tenants starts with.
//
// It guarantees that no secret is stored in clear: random ones as SHA-256, passwords as Argon2id. A secret leaves it once, in
// the answer to whoever had it made. What is unknown, expired, revoked, locked or wrong is refused with one and the same
// answer, after the same work. All that must hold over replicas is decided in the store's transactions. It trusts the
// principals that package identity has verified, the address that it is told a request comes from, and the clock. It knows
// nothing of HTTP, writes no files, and what a principal may do with its scopes elsewhere is not its business.
package credential
