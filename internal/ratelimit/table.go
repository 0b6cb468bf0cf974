package ratelimit

import (
	"container/list"
	"hash/maphash"
	"sync"

	"github.com/counterfoil/counterfoil"
)

// shards is into how many parts the table is cut, so that keys seldom wait for each other.
const shards = 16

// A table holds the keys that were used last, and no more than it was made for.
type table struct {
	seed   maphash.Seed
	shards [shards]shard
}

// A shard is a part of the table with a lock of its own.
type shard struct {
	mu      sync.Mutex
	entries map[Key]*entry
	used    *list.List // of *entry, the last used first
	max     int
	lost    uint64 // raised whenever an entry goes: a state that was read before may be older than the one that went
}

// An entry is a key's place in the table. Its shard's lock guards it.
type entry struct {
	key   Key
	place *list.Element

	state         // of a process that is alone
	dirty  bool   // the store does not have this state
	saving bool   // it is being written
	slice  *slice // of a process that shares the store
}

func newTable(max int) *table {
	t := &table{seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i] = shard{entries: map[Key]*entry{}, used: list.New(), max: (max + shards - 1) / shards}
	}
	return t
}

func (t *table) shard(k Key) *shard { return &t.shards[maphash.Comparable(t.seed, k)%shards] }

// find returns a key's entry and makes it the last used.
func (s *shard) find(k Key) *entry {
	e := s.entries[k]
	if e != nil {
		s.used.MoveToFront(e.place)
	}
	return e
}

// tries bounds how many entries are looked at to find one that may go.
const tries = 16

// add makes a key's entry. One that may go makes room for it; if there is none the limiter can't answer.
func (s *shard) add(k Key, may func(*entry) bool) (*entry, error) {
	if len(s.entries) >= s.max && !s.evict(may) {
		return nil, &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "too many callers are counted at once; try again"}
	}
	e := &entry{key: k}
	e.place = s.used.PushFront(e)
	s.entries[k] = e
	return e, nil
}

// evict removes the entry that was not used for the longest, of those that may go.
func (s *shard) evict(may func(*entry) bool) bool {
	p := s.used.Back()
	for range tries {
		if p == nil {
			return false
		}
		e, before := p.Value.(*entry), p.Prev() //nolint:errcheck,forcetypeassert // the list holds nothing else
		if may(e) {
			s.drop(e)
			return true
		}
		p = before
	}
	return false
}

func (s *shard) drop(e *entry) {
	s.used.Remove(e.place)
	delete(s.entries, e.key)
	s.lost++
}
