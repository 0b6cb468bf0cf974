package translog

import (
	"errors"

	"github.com/counterfoil/counterfoil"
)

// fault is an error about a tenant's log. Tenants are identities, which are safe to print.
func fault(code counterfoil.Code, tenant, msg string, cause error) error {
	return &counterfoil.Error{Code: code, Msg: "the log of tenant " + tenant + ": " + msg, Err: cause}
}

// broken says that a log is not what was signed.
func broken(tenant, msg string) error {
	return fault(counterfoil.CodeIntegrityFailed, tenant, msg, nil)
}

func brokenBy(tenant, msg string, cause error) error {
	return fault(counterfoil.CodeIntegrityFailed, tenant, msg, cause)
}

func invalid(msg string) error {
	return &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: msg}
}

func unavailable(msg string, cause error) error {
	return &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: msg, Err: cause}
}

func hasCode(err error) bool {
	_, ok := errors.AsType[counterfoil.Code](err)
	return ok
}
