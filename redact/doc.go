// Package redact masks credentials in text and in JSON documents, so that results, errors and logs can be shown.
package redact
