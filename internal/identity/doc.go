// Package identity says who calls: tenants, principals and their scopes, and the credentials that prove them. It decides
// nothing about tools.
package identity
