// Package api is the server's HTTP surface: one table of routes, the gates before them, and what answers look like.
//
// It guarantees that nothing is served which is not in the table of routes.go; that every request of a route which is not
// public has passed all gates in the order of gates.go, each of which denies when it can't answer; that errors leave as
// RFC 9457 problems made in problem.go and nowhere else, with a stable code and never a cause; and that each request
// leaves one record, which has no argument and no secret.
//
// It trusts the services that it is made of to keep tenants apart: it hands them the tenant of the verified credential,
// never one that a request names, but for those who administer the system.
package api
