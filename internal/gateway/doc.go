// Package gateway runs a call through the chain: every gate in order, the wait for a person, the single use, the
// upstream, the receipt. chain.go is the order; nothing reaches a tool around it.
package gateway
