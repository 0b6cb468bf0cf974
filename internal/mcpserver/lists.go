package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// The bounds of one page of a list.
const (
	pageItems = 1000
	pageBytes = 4 << 20
)

// metaAbsent is the member of a list's _meta that names the upstreams that are missing from it.
const metaAbsent = "counterfoil/absent"

// listed is what one upstream has in a list.
type listed struct {
	items [][]byte
	err   error
}

// list answers with the lists of all upstreams put together. An upstream that can't be asked is left out and named.
func (v *visit) list(f *flight, m *jsonrpc.Message) answer {
	mounts, err := v.opts.Upstreams(f.ctx, v.p.Tenant)
	if err != nil {
		return decider{log: v.log}.broken(f, "the tenant's upstreams are not known", err)
	}
	mounts = slices.Clone(mounts)
	slices.SortFunc(mounts, func(a, b Mount) int { return strings.Compare(a.Name, b.Name) })
	parts := v.gather(f.ctx, m.Method, mounts)
	var items [][]byte
	var absent []string
	for i, part := range parts {
		if part.err != nil {
			absent = append(absent, mounts[i].Name)
			v.log.LogAttrs(f.ctx, slog.LevelWarn, "an upstream is missing from a list", slog.String("upstream", mounts[i].Name),
				slog.String("method", m.Method), slog.String("cause", part.err.Error()))
			continue
		}
		items = append(items, v.outward(f.ctx, m.Method, mounts[i], part.items)...)
	}
	page, next, ok := cut(items, member(object(m.Params), "cursor"))
	if !ok {
		return failed(f.id, invalidParams("the cursor is of no list that there is now; begin again without one"))
	}
	return answer{message: jsonrpc.NewResult(f.id, v.page(m.Method, page, next, absent))}
}

// gather asks all upstreams at once.
func (v *visit) gather(ctx context.Context, method string, mounts []Mount) []listed {
	ctx, cancel := context.WithTimeout(ctx, v.opts.ListTime)
	defer cancel()
	parts := make([]listed, len(mounts))
	var asked sync.WaitGroup
	for i, m := range mounts {
		if m.Upstream == nil || !isMountName(m.Name) || i > 0 && mounts[i-1].Name == m.Name {
			parts[i].err = fmt.Errorf("the name %q is not that of one upstream", m.Name)
			continue
		}
		asked.Go(func() {
			if method == "tools/list" {
				parts[i].items, parts[i].err = m.Upstream.Definitions(ctx, nil, false)
			} else {
				parts[i].items, parts[i].err = m.Upstream.List(ctx, method)
			}
		})
	}
	asked.Wait()
	return parts
}

// outward gives what an upstream lists the endpoint's names. What can have none is left out, and what is there twice is not there
// at all: nobody could say which is meant.
func (v *visit) outward(ctx context.Context, method string, m Mount, items [][]byte) [][]byte {
	seen := make(map[string]int, len(items))
	names := make([]string, len(items))
	for i, item := range items {
		members := object(item)
		field, _ := nameOf(method)
		name, ok := jsonrpc.Unquote(member(members, field))
		if !ok || jsonrpc.Ambiguous(members, field) {
			continue
		}
		names[i] = name
		seen[name]++
	}
	var out [][]byte
	for i, item := range items {
		if names[i] == "" || seen[names[i]] > 1 {
			continue
		}
		if method == "tools/list" && v.opts.Visible != nil && !v.opts.Visible(ctx, v.p, m, item) {
			continue
		}
		if named, ok := m.named(method, item, names[i]); ok {
			out = append(out, named)
		}
	}
	if left := len(items) - len(out); left > 0 {
		v.log.LogAttrs(ctx, slog.LevelDebug, "parts of an upstream's list are left out", slog.String("upstream", m.Name),
			slog.String("method", method), slog.Int("left out", left))
	}
	return out
}

// nameOf returns the member that names an element of a list, and whether it is a URI.
func nameOf(method string) (field string, isURI bool) {
	switch method {
	case "resources/list":
		return "uri", true
	case "resources/templates/list":
		return "uriTemplate", true
	default:
		return "name", false
	}
}

func (m Mount) named(method string, item []byte, name string) ([]byte, bool) {
	field, isURI := nameOf(method)
	outer, ok := m.Name+uriSeparator+name, true
	if !isURI {
		outer, ok = m.outer(name)
	}
	if !ok {
		return nil, false
	}
	return replace(item, field, jsonrpc.Quote(outer)), true
}

// cut returns the page of a list that a cursor asks for, and the cursor of the next, "" at the end. A cursor holds where
// the page begins and the digest of the whole list: it is worth nothing for any other, be it that the upstreams have
// changed or that the client may see something else now.
func cut(items [][]byte, cursor []byte) (page [][]byte, next string, ok bool) {
	h := sha256.New()
	for _, item := range items {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(item)))) // a hash takes everything
		_, _ = h.Write(item)
	}
	digest := h.Sum(nil)
	from := 0
	if cursor != nil {
		text, _ := jsonrpc.Unquote(cursor)
		b, err := base64.RawURLEncoding.Strict().DecodeString(text)
		if err != nil || len(b) != 4+len(digest) || string(b[4:]) != string(digest) {
			return nil, "", false
		}
		if from = int(binary.BigEndian.Uint32(b)); from <= 0 || from >= len(items) {
			return nil, "", false
		}
	}
	to, size := from, 0
	for to < len(items) && to-from < pageItems && (to == from || size+len(items[to]) <= pageBytes) {
		size += len(items[to])
		to++
	}
	if to < len(items) {
		next = base64.RawURLEncoding.EncodeToString(append(binary.BigEndian.AppendUint32(nil, uint32(to)), digest...))
	}
	return items[from:to], next, true
}

// page writes one page. It is for its client alone: what it shows depends on who asks.
func (v *visit) page(method string, items [][]byte, next string, absent []string) []byte {
	name := "tools"
	switch method {
	case "resources/list":
		name = "resources"
	case "resources/templates/list":
		name = "resourceTemplates"
	case "prompts/list":
		name = "prompts"
	}
	result := []jsonrpc.Member{{Name: name, Value: jsonrpc.Batch(items)}}
	if next != "" {
		result = append(result, jsonrpc.Member{Name: "nextCursor", Value: jsonrpc.Quote(next)})
	}
	if v.modern {
		ttl := "5000"
		if absent != nil {
			ttl = "0"
		}
		result = append(result, jsonrpc.Member{Name: "resultType", Value: []byte(`"complete"`)},
			jsonrpc.Member{Name: "ttlMs", Value: []byte(ttl)}, jsonrpc.Member{Name: "cacheScope", Value: []byte(`"private"`)})
	}
	if absent != nil {
		result = append(result, jsonrpc.Member{Name: "_meta", Value: jsonrpc.Object([]jsonrpc.Member{{Name: metaAbsent, Value: quoteAll(absent)}})})
	}
	return jsonrpc.Object(result)
}
