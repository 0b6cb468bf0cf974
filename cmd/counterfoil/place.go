package main

import (
	"net/url"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/counterfoil/counterfoil"
)

// A place is where the records are kept, as one setting says it: a file of SQLite's or a PostgreSQL database.
type place struct {
	file string // SQLite's, absolute; "" for PostgreSQL
	url  string // PostgreSQL's, whole, with the password; "" for SQLite
}

const (
	storeVariable = "COUNTERFOIL_STORE"
	hidden        = "redacted" // stands for a password
)

// parsePlace reads the setting. dir is the state directory, where SQLite's file is unless the setting says otherwise. No
// error of it repeats what it read: there may be a password in it.
func parsePlace(text, dir string) (place, error) {
	if text == "" || text == "sqlite:" {
		return place{file: filepath.Join(dir, databaseFile)}, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return place{}, badStore("it is not a URL; a special character in a password is written as %XX")
	}
	switch u.Scheme {
	case "sqlite":
		return sqlitePlace(u)
	case "postgres", "postgresql":
		if u.Opaque != "" || u.Fragment != "" {
			return place{}, badStore("a PostgreSQL URL is postgres://USER@HOST/DATABASE")
		}
		return place{url: text}, nil
	}
	return place{}, badStore("it must be sqlite:///ABSOLUTE/PATH or postgres://USER@HOST/DATABASE")
}

func sqlitePlace(u *url.URL) (place, error) {
	path := filepath.FromSlash(u.Path)
	if runtime.GOOS == "windows" {
		path = strings.TrimPrefix(path, `\`) // sqlite:///C:/…
	}
	switch {
	case u.Opaque != "" || u.Host != "" || u.User != nil:
		return place{}, badStore("an SQLite URL is sqlite:///ABSOLUTE/PATH, with three slashes")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return place{}, badStore("an SQLite URL has no parameters; a ? or # in the path is written as %3F or %23")
	case !filepath.IsAbs(path) || filepath.Clean(path) != path || path == filepath.Dir(path):
		return place{}, badStore("an SQLite URL names a file by its whole path, without . or .. in it")
	case strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return place{}, badStore("the path has a control character in it")
	}
	return place{file: path}, nil
}

func badStore(why string) error {
	return &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Path: "/store", Msg: "the store's address can't be used: " + why}
}

// secret reports whether there is a password in the setting.
func (p place) secret() bool { return p.url != "" && p.String() != p.url }

// secretParameter reports whether a parameter of a PostgreSQL URL is a secret.
func secretParameter(name string) bool { return name == "password" || name == "sslpassword" }

// String returns the setting as it may be shown: without a password.
func (p place) String() string {
	if p.url == "" {
		path := filepath.ToSlash(p.file)
		if !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
		return (&url.URL{Scheme: "sqlite", Path: path, Host: ""}).Redacted()
	}
	u, err := url.Parse(p.url)
	if err != nil {
		return hidden
	}
	shown := p.url
	if _, has := u.User.Password(); has {
		// The text stays as it was written, but for the password: from the first colon after the scheme to the @ before the host.
		rest := strings.TrimPrefix(shown, u.Scheme+"://")
		authority, path := rest, ""
		if i := strings.IndexAny(rest, "/?#"); i >= 0 {
			authority, path = rest[:i], rest[i:]
		}
		user, host := authority[:strings.LastIndex(authority, "@")], authority[strings.LastIndex(authority, "@"):]
		name, _, _ := strings.Cut(user, ":")
		shown = u.Scheme + "://" + name + ":" + hidden + host + path
	}
	before, query, ok := strings.Cut(shown, "?")
	if !ok {
		return shown
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, _, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(name); err != nil || secretParameter(plain) {
			parts[i] = name + "=" + hidden
		}
	}
	return before + "?" + strings.Join(parts, "&")
}

// GoString says no more than String.
func (p place) GoString() string { return p.String() }
