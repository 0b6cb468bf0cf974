package governance

import (
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds on the search for a script's package.
const (
	maxManifest = 256 << 10 // bytes of one package.json
	maxParents  = 16        // directories looked at
)

// A manifest is what of a package.json tells which package a script belongs to.
type manifest struct {
	Name    string         `json:"name"`
	Version string         `json:"version"`
	Main    string         `json:"main"`
	Bin     jsontext.Value `json:"bin"`
}

// nodeScript identifies a script by the package.json above it. The script must be a program that the package declares:
// any other file of the package may do anything.
func nodeScript(script string, args []string, dir string, files fs.FS) Launch {
	p := absolute(dir, script)
	if p == "" || files == nil {
		return Launch{}
	}
	p, ok := resolve(files, p)
	if !ok || p == "/" {
		return Launch{}
	}
	at := path.Dir(p)
	for range maxParents {
		if m, ok := readManifest(files, path.Join(at, "package.json")); ok && m.Name != "" {
			if !m.declares(strings.TrimPrefix(strings.TrimPrefix(p, at), "/")) {
				return Launch{}
			}
			r := runner{kind: KindNPM}
			name, _, ok := r.parseSpec(m.Name)
			if !ok || name != m.Name || !isVersion(m.Version) {
				return Launch{}
			}
			return Launch{Kind: KindNPM, Package: name, Version: m.Version, Args: args}
		}
		if at == "/" || path.Base(at) == "node_modules" {
			return Launch{}
		}
		at = path.Dir(at)
	}
	return Launch{}
}

func readManifest(files fs.FS, p string) (manifest, bool) {
	var m manifest
	f, err := files.Open(strings.TrimPrefix(p, "/"))
	if err != nil {
		return m, false
	}
	defer func() { _ = f.Close() }() // read only: nothing is lost
	b, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil || len(b) > maxManifest {
		return m, false
	}
	return m, json.Unmarshal(b, &m) == nil
}

// declares reports whether file, relative to the package, is one of its programs.
func (m manifest) declares(file string) bool {
	same := func(declared string) bool { return declared != "" && path.Clean(declared) == file }
	var one string
	if json.Unmarshal(m.Bin, &one) == nil && same(one) {
		return true
	}
	var many map[string]string
	if json.Unmarshal(m.Bin, &many) == nil {
		for _, b := range many {
			if same(b) {
				return true
			}
		}
	}
	return same(m.Main)
}
