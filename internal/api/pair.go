package api

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// lookEvery is how often a certificate's files are looked at, when somebody connects.
const lookEvery = 10 * time.Second

// A pair is a certificate and its key, as its files have them. What can't be read leaves the last good one in force.
type pair struct {
	certificate, key string
	now              func() time.Time

	mu     sync.Mutex
	loaded *tls.Certificate
	stamp  [2]time.Time
	looked time.Time
}

func loadPair(certificate, key string, now func() time.Time) (*pair, error) {
	p := &pair{certificate: certificate, key: key, now: now}
	c, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("the certificate can't be used: %w", err)
	}
	p.loaded, p.stamp, p.looked = &c, p.stamps(), now()
	return p, nil
}

// stamps are when the files were changed; zero for one that can't be seen.
func (p *pair) stamps() (s [2]time.Time) {
	for i, name := range []string{p.certificate, p.key} {
		if st, err := os.Stat(name); err == nil {
			s[i] = st.ModTime()
		}
	}
	return s
}

// get returns the certificate, read anew if its files have changed.
func (p *pair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if d := now.Sub(p.looked); d >= 0 && d < lookEvery {
		return p.loaded, nil
	}
	p.looked = now
	if s := p.stamps(); s != p.stamp {
		// Between the two files' changes they don't fit each other: then it is tried again.
		if c, err := tls.LoadX509KeyPair(p.certificate, p.key); err == nil {
			p.loaded, p.stamp = &c, s
		}
	}
	return p.loaded, nil
}
