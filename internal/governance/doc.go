// Package governance knows what the tools behind the gate are and what a call of one of them amounts to: definitions and
// their pins, effect classes, argument schemas, the paths a call would touch, and a person's rules.
//
// It trusts the person's configuration (launch command, rules, classifications) and the profiles it ships. Everything a
// server says about itself is hostile text: a definition is pinned by its digest, its schema can only refuse arguments,
// its annotations can only raise a class. What nobody classified is destructive.
//
// A profile trusts that the launch command runs the package it names. It can't see what a local directory, a registry
// mirror or an environment variable put in that package's place.
package governance
