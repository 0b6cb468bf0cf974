// Package ratelimit says how often and how much: rates of principals, tools and client addresses, and the sizes of bodies.
//
// A limit is a bucket for bursts and sliding windows for what a minute, an hour and a day may hold. Windows are kept in 256
// parts, and a part leaves a window only when all of it is out: no span of a window's length ever holds more than its limit,
// wherever it begins, and what was used comes back at most 1/256 of the window later than it would by an exact log. Denied
// requests cost nothing.
//
// A process that is alone with its store keeps the counts in memory, exactly, and writes them down about once a second.
// Processes that share a store take slices of a key's budget from it: what they may use for half a second without asking. A
// slice is booked when it is taken and what is left of it is given back; what a process takes into its grave is lost, never
// given out twice. The package trusts the clocks of the processes to agree to within a second or so.
//
// A limiter that can't answer says so with an error, and that is a no.
package ratelimit
