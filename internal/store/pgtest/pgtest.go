// Package pgtest gives tests a real PostgreSQL server of their own, and a wire to it that they can cut.
package pgtest
