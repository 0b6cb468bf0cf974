// Package upstream talks to tool servers: children over their standard streams, and others over HTTP.
//
// A Process is a child: its own process group, its standard error drained, nothing of it left behind when it is closed
// or when our own process dies, even by SIGKILL (on Linux, with a Supervisor). A Conn is the conversation with one: many
// calls at once under ids of our own, each failing alone or, when the child ends, all at once and without a guess about what
// they did. A Client speaks to a server in our own name, over a Conn or over HTTP, whichever revision of the protocol it has;
// it says that nothing was sent only where no connection was there to send it on. No server is trusted: what it says is
// bounded, checked and never believed to answer what it was not asked.
package upstream
