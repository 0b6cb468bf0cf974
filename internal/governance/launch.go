package governance

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// A Kind says by what a server is identified. The zero Kind is a launch that wasn't understood: no profile applies.
type Kind string

// The kinds.
const (
	KindNPM     Kind = "npm"     // a package of the npm registry
	KindPyPI    Kind = "pypi"    // a package of the Python index
	KindImage   Kind = "image"   // a container image
	KindBinary  Kind = "binary"  // a program, by its absolute path
	KindBuiltin Kind = "builtin" // a server that this program brings along
)

// A Launch is what a launch command runs, as far as it can be told from the command itself. Paths in it are POSIX paths:
// on another system a launch names no directories, so a profile's paths are refused there.
type Launch struct {
	Kind    Kind
	Package string   // "@scope/name", image without tag, path of the program
	Version string   // exact version, tag or image digest; "" when the command leaves it open
	Command string   // the program of the package that is run, "" for the one named like the package
	Args    []string // the server's own arguments
	Dir     string   // absolute working directory, against which relative arguments are meant
	Real    []string // for each of Args: where it leads when it is a path with symbolic links, else ""
}

// Identify reads a launch command. dir is the absolute working directory; files is the file system from its root, in
// which the packages of node scripts and symbolic links are looked up, or nil to look nothing up. Identify guesses
// nothing: an option it doesn't know, which might take a value or change what runs, makes the whole launch unknown.
func Identify(argv []string, dir string, files fs.FS) Launch {
	var l Launch
	if len(argv) > 0 {
		l = identify(argv, dir, files)
	}
	if l.Kind == "" {
		l = Launch{}
	}
	l.Dir = dir
	l.Real = make([]string, len(l.Args))
	for i, a := range l.Args {
		if p := absolute(dir, a); p != "" && files != nil {
			if r, ok := resolve(files, p); ok && r != p {
				l.Real[i] = r
			}
		}
	}
	return l
}

func identify(argv []string, dir string, files fs.FS) Launch {
	program := argv[0]
	if !path.IsAbs(program) && strings.ContainsAny(program, `/\`) {
		return nodeScript(program, argv[1:], dir, files) // a script or program in the working directory
	}
	name := strings.TrimSuffix(strings.TrimSuffix(path.Base(program), ".exe"), ".cmd")
	for _, r := range runners() {
		if words := len(r.words); len(argv) >= words && name == r.words[0] && slices.Equal(argv[1:words], r.words[1:]) {
			return r.identify(argv[words:])
		}
	}
	switch {
	case name == "counterfoil" && len(argv) > 1 && argv[1] == "sample-server":
		return Launch{Kind: KindBuiltin, Package: "counterfoil-sample", Args: argv[2:]}
	case name == "docker" && len(argv) > 1 && argv[1] == "run":
		return dockerRun(argv[2:])
	case name == "node" && len(argv) > 1 && !strings.HasPrefix(argv[1], "-"):
		return nodeScript(argv[1], argv[2:], dir, files)
	case !path.IsAbs(program) || isInterpreter(name):
		return Launch{}
	}
	if l := nodeScript(program, argv[1:], dir, files); l.Kind != "" {
		return l // node_modules/.bin/…
	}
	return Launch{Kind: KindBinary, Package: path.Clean(program), Args: argv[1:]}
}

// isInterpreter reports whether a program says nothing about the server because its arguments do.
func isInterpreter(name string) bool {
	name = strings.TrimRight(name, "0123456789.")
	return slices.Contains([]string{
		"sh", "bash", "dash", "zsh", "fish", "env", "node", "deno", "bun", "bunx", "npm", "npx", "pnpm", "pnpx", "yarn", "python", "uv", "uvx",
		"pipx", "ruby", "perl", "php", "java", "docker", "podman", "sudo", "nohup", "timeout", "xargs", "cmd", "powershell", "pwsh", "counterfoil",
	}, name)
}

// absolute returns a cleaned absolute path for a launch argument, "" for what can't be a path of this system.
func absolute(dir, arg string) string {
	switch {
	case arg == "" || strings.HasPrefix(arg, "~") || strings.HasPrefix(arg, "-"):
		return ""
	case path.IsAbs(arg):
		return path.Clean(arg)
	case path.IsAbs(dir):
		return path.Join(dir, arg)
	}
	return ""
}

// resolve follows every symbolic link in an absolute, cleaned path.
func resolve(files fs.FS, p string) (string, bool) {
	done, todo := "", strings.Split(strings.Trim(p, "/"), "/")
	for links := 0; len(todo) > 0; {
		next := path.Join(done, todo[0])
		if next == "" || !fs.ValidPath(next) {
			return "", false
		}
		info, err := fs.Lstat(files, next)
		if err != nil {
			return "", false
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done, todo = next, todo[1:]
			continue
		}
		target, err := fs.ReadLink(files, next)
		if links++; err != nil || links > 40 {
			return "", false
		}
		if !path.IsAbs(target) {
			target = path.Join("/", done, target)
		}
		done, todo = "", append(strings.Split(strings.Trim(path.Clean(target), "/"), "/"), todo[1:]...)
	}
	return "/" + done, true
}
