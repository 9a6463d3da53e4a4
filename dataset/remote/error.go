package remote

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"
)

// response returns the error response of the server, or the zero value if no server
// answered.
func response(err error) (r minio.ErrorResponse) {
	errors.As(err, &r)
	return r
}

// status returns the HTTP status of an error, or 0 if no server answered.
func status(err error) int { return response(err).StatusCode }

// expired reports whether the credentials have expired.
func expired(err error) bool {
	return strings.HasPrefix(response(err).Code, "ExpiredToken") || response(err).Code == "TokenRefreshRequired"
}

// full reports whether the store is full or a quota is used up. Waiting does not help
// then, although some servers send a status that usually means a temporary failure.
func full(err error) bool {
	code := response(err).Code
	return status(err) == http.StatusInsufficientStorage || strings.Contains(code, "Quota") || strings.Contains(code, "StorageFull")
}

// superseded reports whether a put came too late: the object exists, or our parts
// were removed by another process that completed the same upload first (see
// putParts).
func superseded(err error) bool {
	code := response(err).Code
	return status(err) == http.StatusPreconditionFailed || code == "NoSuchUpload" || code == "InvalidPart"
}

// transient reports whether the same request may succeed later.
func transient(err error) bool {
	r := response(err)
	switch {
	case full(err):
		return false
	// No server answered. A failing network may recover; an unknown host name, an
	// untrusted certificate or a server that speaks plain HTTP will not.
	case r.StatusCode == 0:
		var name *net.DNSError
		var cert *tls.CertificateVerificationError
		var unknown x509.UnknownAuthorityError
		return !errors.As(err, &cert) && !errors.As(err, &unknown) && !(errors.As(err, &name) && name.IsNotFound) && !strings.Contains(err.Error(), "HTTPS client")
	// A conflict is the answer to a conditional put during another put of the same
	// name.
	case r.StatusCode == http.StatusConflict, r.StatusCode == http.StatusRequestTimeout, r.StatusCode == http.StatusTooManyRequests:
		return true
	// The bytes were damaged or cut off on the way to the server.
	case r.Code == "RequestTimeout", r.Code == "BadDigest", r.Code == "XAmzContentSHA256Mismatch", r.Code == "IncompleteBody":
		return true
	}
	return r.StatusCode >= 500 && r.StatusCode != http.StatusNotImplemented
}

// explain returns an error that says what was being done, what the server answered
// and, for common causes, a hint. Messages of servers may span lines, so they are
// joined into one. No credentials appear in it.
func (s *Store) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	r, hint := response(err), ""
	if r.StatusCode != 0 {
		r.Message = strings.Join(strings.Fields(r.Message), " ")
		err = r
	}
	switch {
	// The client reports the HTTP status as the code if the body is not an S3 error.
	case strings.HasPrefix(r.Code, "4"):
		return fmt.Errorf("%s: this is not the answer of an S3 server: %s (hint: set AWS_ENDPOINT_URL to its address)", doing, r.Code)
	case r.Code == "NoSuchBucket":
		return fmt.Errorf("%s: there is no bucket %s (hint: make it first, or check its name, AWS_REGION and AWS_ENDPOINT_URL)", doing, s.bucket)
	case expired(err):
		hint = "the credentials have expired: get new ones and run the same command again"
	case full(err):
		hint = "the store is full, or a quota is used up: free some, and run the same command again"
	case r.Code == "RequestTimeTooSkewed":
		hint = "the clock of this machine is wrong: set it"
	case r.Code == "InvalidAccessKeyId", r.Code == "SignatureDoesNotMatch", r.Code == "InvalidToken", r.StatusCode == http.StatusUnauthorized:
		hint = "the server does not know these credentials: check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN or the profile in ~/.aws/credentials, and AWS_ENDPOINT_URL"
	case r.StatusCode == http.StatusForbidden:
		hint = "these credentials must be allowed to list, read, write and delete below that prefix"
	case r.Code == "AuthorizationHeaderMalformed", r.StatusCode == http.StatusMovedPermanently, r.Code == "PermanentRedirect":
		hint = "the bucket is in another region: set AWS_REGION"
	case isNetwork(err):
		hint = "is AWS_ENDPOINT_URL the address of the S3 server, and is it reached from here?"
	case r.StatusCode >= 500:
		hint = "the server has trouble: run the same command again later"
	}
	if hint == "" {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w (hint: %s)", doing, err, hint)
}

func isNetwork(err error) bool {
	var n net.Error
	return errors.As(err, &n)
}
