// Package redact masks credentials in text and in JSON documents, so that results, errors and logs can be shown to a model
// or a reader who must not have them.
//
// What it guarantees. Input without a credential comes back byte for byte; masking twice gives the same as masking once;
// time and memory are linear in the input; nothing panics; and a [Report] says what was masked without a byte of it. A
// mask replaces the whole secret: no prefix, no tail, no length is left. Digests, UUIDs, commit hashes and the ids of
// receipts and approvals are not taken for credentials by their form.
//
// What it doesn't. It knows credentials by the names they stand under, in English, and by published forms. Ids of sessions and
// cursors of pages are left as they are: a reader needs them to go on. A secret that stands in the
// open under a harmless name, in a form that nobody published, passes; so does one that a server encodes to get it past.
// It is no substitute for not sending secrets. And it masks copies for display: what a digest or a signature covers must
// never go through it first.
package redact
