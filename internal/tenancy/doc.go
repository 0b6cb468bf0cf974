// Package tenancy keeps the tenants: what each may do, what of it is frozen, and its epoch, a number that rises with every
// change that a decision rests on.
package tenancy
