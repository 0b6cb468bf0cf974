//go:build !unix

package postgres_test

import "testing"

func chown(testing.TB, string) {}
