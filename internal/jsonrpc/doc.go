// Package jsonrpc reads and writes JSON-RPC 2.0 messages one line at a time and never re-encodes what they carry: params,
// results and errors leave as the bytes that came in, and so does every member that the package does not know.
//
// It is strict where two readers could disagree about one text: valid UTF-8, no member twice at any depth, no lone
// surrogate, nothing after the message, no top-level name that another reader could take for one that JSON-RPC defines.
// It does not know any method: what a message means is for its callers.
package jsonrpc
