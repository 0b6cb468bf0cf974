// Package scan takes text in and gives findings out: it normalises, decodes and looks for the wording of prompt
// injection. It imports nothing else of this module and does no I/O.
//
// What it guarantees. A scan costs time and memory linear in its input, whatever the input is; it stops when its
// context ends; the same input gives the same result on every machine; and where a bound was met before everything had
// been looked at, the result is not safe and says which bound it was.
//
// What it doesn't. A safe result means that nothing known was found, never that a text is harmless: an attack in words
// that no rule knows, or one that is an attack only beside the task it abuses, passes. It is one gate among several.
package scan
