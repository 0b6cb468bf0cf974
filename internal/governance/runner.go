package governance

import (
	"slices"
	"strings"
)

// A runner is a program that fetches a package and runs it.
type runner struct {
	words []string // the command that starts it
	kind  Kind
	bare  []string // options without a value that don't change what runs
	from  []string // options that name the package, so that the first word is a program of it
	eats  bool     // takes options for itself even after the package, unless they follow "--"
}

func runners() []runner {
	npx := []string{"-y", "--yes", "-q", "--quiet", "--silent", "--prefer-offline", "--prefer-online", "--no-install", "--no"}
	from := []string{"-p", "--package"}
	return []runner{
		{words: []string{"npx"}, kind: KindNPM, bare: npx, from: from},
		{words: []string{"npm", "exec"}, kind: KindNPM, bare: npx, from: []string{"--package"}, eats: true},
		{words: []string{"npm", "x"}, kind: KindNPM, bare: npx, from: []string{"--package"}, eats: true},
		{words: []string{"bunx"}, kind: KindNPM, bare: []string{"-y", "--bun", "--silent"}, from: from},
		{words: []string{"bun", "x"}, kind: KindNPM, bare: []string{"-y", "--bun", "--silent"}, from: from},
		{words: []string{"pnpm", "dlx"}, kind: KindNPM, bare: []string{"-s", "--silent"}, from: []string{"--package"}},
		{words: []string{"pnpx"}, kind: KindNPM, bare: []string{"-s", "--silent"}, from: []string{"--package"}},
		{words: []string{"uvx"}, kind: KindPyPI, bare: []string{"-q", "--quiet", "--offline", "--isolated"}, from: []string{"--from"}},
		{words: []string{"uv", "tool", "run"}, kind: KindPyPI, bare: []string{"-q", "--quiet", "--offline", "--isolated"}, from: []string{"--from"}},
	}
}

// identify reads what follows the runner's own words: options, the package, the server's arguments.
func (r runner) identify(args []string) Launch {
	spec, dashes := "", false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && !dashes {
		option := args[0]
		args = args[1:]
		name, value, inline := strings.Cut(option, "=")
		switch {
		case option == "--":
			dashes = true
		case slices.Contains(r.bare, option):
		case slices.Contains(r.from, name) && spec == "" && inline:
			spec = value
		case slices.Contains(r.from, name) && spec == "" && len(args) > 0:
			spec, args = args[0], args[1:]
		default:
			return Launch{}
		}
	}
	if len(args) == 0 {
		return Launch{}
	}
	first, rest := args[0], args[1:]
	command := first
	if spec == "" {
		spec, command = first, ""
	}
	if r.eats && !dashes {
		if rest = afterDashes(rest); rest == nil {
			return Launch{}
		}
	}
	name, version, ok := r.parseSpec(spec)
	if !ok {
		return Launch{}
	}
	return Launch{Kind: r.kind, Package: name, Version: version, Command: command, Args: rest}
}

// afterDashes drops the first "--", before which no option may stand. nil means that one does.
func afterDashes(args []string) []string {
	out := make([]string, 0, len(args))
	for i, a := range args {
		if a == "--" {
			return append(out, args[i+1:]...)
		}
		if strings.HasPrefix(a, "-") {
			return nil
		}
		out = append(out, a)
	}
	return out
}

// parseSpec splits "name", "name@version" and, for Python, "name==version". A tag or a range leaves the version open. A
// version that says where else to get the code (a URL, a path, an alias) is refused.
func (r runner) parseSpec(spec string) (name, version string, ok bool) {
	name = spec
	if i := strings.LastIndexByte(spec, '@'); i > 0 {
		name, version = spec[:i], spec[i+1:]
	} else if n, v, found := strings.Cut(spec, "=="); found && r.kind == KindPyPI {
		name, version = n, v
	}
	if strings.ContainsAny(version, ":/\\") || version == "" && name != spec {
		return "", "", false
	}
	if !isVersion(version) {
		version = ""
	}
	if r.kind == KindPyPI {
		if !isWord(name, "._-") {
			return "", "", false
		}
		return strings.ToLower(strings.NewReplacer("_", "-", ".", "-").Replace(name)), version, true
	}
	scope, base, scoped := strings.Cut(name, "/")
	if !scoped {
		return name, version, isWord(name, "._-~")
	}
	scope, at := strings.CutPrefix(scope, "@")
	return name, version, at && isWord(scope, "._-~") && isWord(base, "._-~")
}

// isVersion reports whether v is one exact version: numbers with two dots or more, then perhaps a suffix.
func isVersion(v string) bool {
	core, suffix := v, ""
	if i := strings.IndexAny(v, "-+"); i >= 0 {
		core, suffix = v[:i], v[i+1:]
		if suffix == "" {
			return false
		}
	}
	parts := strings.Split(core, ".")
	for _, p := range parts {
		if p == "" || strings.Trim(p, "0123456789") != "" {
			return false
		}
	}
	return len(parts) >= 3 && (suffix == "" || isWord(suffix, ".-+"))
}

// isWord reports whether s is ASCII letters, digits and the given others, and begins with a letter or digit.
func isWord(s, others string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
		if !alnum && (i == 0 || !strings.Contains(others, string(rune(c)))) {
			return false
		}
	}
	return s != ""
}

// dockerRun reads the arguments of "docker run". Options that change what runs in the image are not known, so they make
// the launch unknown.
func dockerRun(args []string) Launch {
	bare := []string{"-i", "--interactive", "-t", "--tty", "-it", "-ti", "--rm", "--init", "--read-only"}
	valued := []string{"-e", "--env", "--env-file", "--mount", "-v", "--volume", "--name", "--network", "--net", "-w", "--workdir", "-u", "--user",
		"-l", "--label", "--memory", "-m", "--cpus", "--pull", "--platform", "--cap-drop", "--security-opt", "--tmpfs"}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, _, inline := strings.Cut(args[0], "=")
		switch {
		case slices.Contains(bare, args[0]):
			args = args[1:]
		case slices.Contains(valued, name) && inline:
			args = args[1:]
		case slices.Contains(valued, name) && len(args) > 1:
			args = args[2:]
		default:
			return Launch{}
		}
	}
	if len(args) == 0 {
		return Launch{}
	}
	name, digest, pinned := strings.Cut(args[0], "@")
	version := digest
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		if tag := name[i+1:]; !isWord(tag, "._-") {
			return Launch{}
		} else if !pinned {
			version = tag
		}
		name = name[:i]
	}
	if !isWord(name, "._-/:") || pinned && !isWord(digest, ":") {
		return Launch{}
	}
	return Launch{Kind: KindImage, Package: name, Version: version, Args: args[1:]}
}
