// Package mcpserver is the Model Context Protocol in front of the gate: an agent's client on one side, one upstream on the
// other, every call that could have an effect through the gate in between.
//
// It guarantees that a method it does not know reaches the gate and never the upstream by itself, that every request with
// a valid id gets exactly one answer under that very id, and that what it relays it relays byte for byte, whatever the
// revision of the protocol, but for what it must not let pass: capabilities that would let the upstream use the client's
// model or see its folders, and _meta members that nobody listed. It does not decide about any call.
package mcpserver
