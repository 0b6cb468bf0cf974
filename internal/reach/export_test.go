package reach

import "net/netip"

// Permits reports whether the dialer would dial an address that a resolver gave it.
func Permits(d *Dialer, a netip.Addr) bool { return d.judge.permits(a.Unmap()) }
