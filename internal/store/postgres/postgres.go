// Package postgres is the gateway's store in a PostgreSQL database that many replicas share.
package postgres
