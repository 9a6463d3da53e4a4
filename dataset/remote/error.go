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

// answer is what the server said, the zero value where no server answered.
func answer(err error) (r minio.ErrorResponse) {
	errors.As(err, &r)
	return r
}

func status(err error) int { return answer(err).StatusCode }

func expired(err error) bool {
	return strings.HasPrefix(answer(err).Code, "ExpiredToken") || answer(err).Code == "TokenRefreshRequired"
}

// full says that the store takes no more.
func full(err error) bool {
	code := answer(err).Code
	return status(err) == http.StatusInsufficientStorage || strings.Contains(code, "Quota") || strings.Contains(code, "StorageFull")
}

// outrun says that a put was too late: the file is there, or its parts were removed after
// it was (see putParts).
func outrun(err error) bool {
	code := answer(err).Code
	return status(err) == http.StatusPreconditionFailed || code == "NoSuchUpload" || code == "InvalidPart"
}

// transient says whether the same request may succeed later.
func transient(err error) bool {
	r := answer(err)
	switch {
	case full(err):
		return false
	case r.StatusCode == 0: // the network; but nobody by that name, and another protocol, stay so
		var name *net.DNSError
		var cert *tls.CertificateVerificationError
		var unknown x509.UnknownAuthorityError
		return !errors.As(err, &cert) && !errors.As(err, &unknown) && !(errors.As(err, &name) && name.IsNotFound) && !strings.Contains(err.Error(), "HTTPS client")
	case r.StatusCode == http.StatusConflict, r.StatusCode == http.StatusRequestTimeout, r.StatusCode == http.StatusTooManyRequests:
		return true
	case r.Code == "RequestTimeout", r.Code == "BadDigest", r.Code == "XAmzContentSHA256Mismatch", r.Code == "IncompleteBody":
		return true
	}
	return r.StatusCode >= 500 && r.StatusCode != http.StatusNotImplemented
}

// explain says what was being done, what the server said, and what helps. It tells no credentials.
func (s *Store) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	r, hint := answer(err), ""
	if r.StatusCode != 0 {
		r.Message = strings.Join(strings.Fields(r.Message), " ") // on one line
		err = r
	}
	switch {
	case strings.HasPrefix(r.Code, "4"): // of which the code is no word of S3
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
