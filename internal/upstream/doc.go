// Package upstream runs a tool server as a child process and talks to it over its standard streams.
//
// A Process is the child: its own process group, its standard error drained, nothing of it left behind when it is closed
// or when our own process dies, even by SIGKILL (on Linux, with a Supervisor). A Conn is the conversation: many calls at
// once under ids of our own, each failing alone or, when the child ends, all at once and without a guess about what they
// did. The child is not trusted: what it prints is bounded, checked and never believed to answer what it was not asked.
package upstream
