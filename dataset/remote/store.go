// Package remote stores files of a results folder in an S3 object store, under their
// own names, so that machines without a common folder can share one. The pipeline
// uses it for "reproduce --remote".
//
// A [Store] is the part of a bucket below a prefix. [Store.PutOnce] uploads a file
// that never changes and fails if the store has other bytes under its name;
// [Store.Put] replaces one that does change. [Store.Get] downloads, [Store.List]
// lists, and [Store.Lock] gives one machine at a time the right to work on a name.
//
// A file is visible completely or not at all. Each carries its SHA-256, which the
// server checks on upload and the client on download. Everything rests on the
// conditional put "If-None-Match: *", with which the server decides races; Open
// therefore refuses servers that ignore it.
//
// The package knows files and names, not what the files contain.
package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// Store is the part of a bucket below a prefix. Its methods may be called from
// several goroutines at once.
type Store struct {
	address string // s3://bucket/prefix
	bucket  string
	prefix  string // "" or "runs/small/"
	core    *minio.Core
	creds   *credentials.Credentials
	// pace scales all waiting: it is the interval at which a lock is renewed, and the
	// longest pause between two attempts.
	pace time.Duration
	// stall is the time without a transferred byte after which a transfer is
	// cancelled and started again.
	stall time.Duration
	// reached is set once the server has answered. Until then a failing network is
	// most likely a wrong address, and retry gives up sooner.
	reached bool
	// part is the size of the parts of a multipart upload, and the largest file that
	// is uploaded in one request. Larger files whose parts would be too many get
	// larger parts.
	part int64
}

// Defaults of Store's pace, stall and part, which tests shorten.
const (
	defaultPace  = 30 * time.Second
	defaultStall = time.Minute
	defaultPart  = 16 << 20
)

// Times in units of Store.pace.
const (
	// A lock that was not renewed for lockExpiry paces is free: it may miss several
	// renewals, because a busy machine or server delays them.
	lockExpiry = 6
	// A process that waits for a lock looks at it polls times per pace.
	polls = 6
	// The first pause before a retry is pace/firstRetry; each further pause is twice
	// as long, up to one pace.
	firstRetry = 60
)

// How often a request is sent: for about a minute and a half in all, or two seconds
// if no server has answered yet.
const (
	tries          = 9
	triesUnreached = 3
)

// probeName is an object that Open creates and leaves. Like those of locks, its name
// starts with a dot, so that List never returns it as a file.
const probeName = ".probe"

// Open connects to the store at an address such as s3://bucket/prefix. It returns an
// error if the server does not support conditional puts. Server and credentials come
// from the environment variables and files that other S3 programs use:
// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and its
// companions, or a profile in ~/.aws/credentials.
func Open(ctx context.Context, address string) (*Store, error) {
	return open(ctx, address, defaultPace)
}

func open(ctx context.Context, address string, pace time.Duration) (*Store, error) {
	bucket, prefix, err := parse(address)
	if err != nil {
		return nil, err
	}
	s := &Store{address: strings.TrimSuffix(address, "/"), bucket: bucket, prefix: prefix, pace: pace, stall: defaultStall, part: defaultPart,
		creds: credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}})}
	if v, err := s.creds.GetWithContext(nil); err != nil || v.AccessKeyID == "" {
		return nil, fmt.Errorf("opening %s: there are no credentials (hint: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write a profile to ~/.aws/credentials and name it in AWS_PROFILE)", address)
	}
	host, secure, region, err := endpoint()
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", address, err)
	}
	// Retries are ours alone (see retry): those of the client would multiply with
	// them.
	s.core, err = minio.NewCore(host, &minio.Options{Creds: s.creds, Secure: secure, Region: region, MaxRetries: 1})
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", address, err)
	}
	err = s.probe(ctx)
	s.reached = true
	return s, err
}

// parse splits an address into bucket and prefix. The prefix is "" or ends with a
// slash.
func parse(address string) (bucket, prefix string, err error) {
	rest, ok := strings.CutPrefix(address, "s3://")
	bucket, prefix, _ = strings.Cut(rest, "/")
	prefix = strings.TrimSuffix(prefix, "/")
	if !ok || bucket == "" || strings.ContainsAny(rest, "@?#\\ ") || prefix != "" && path.Clean("/"+prefix) != "/"+prefix {
		return "", "", fmt.Errorf("%q is not the address of a store (hint: s3://BUCKET/PREFIX; the server is named by AWS_ENDPOINT_URL, and credentials by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)", address)
	}
	if err := s3utils.CheckValidBucketName(bucket); err != nil {
		return "", "", fmt.Errorf("%q: no store accepts the bucket %q (hint: 3 to 63 letters, digits, dots and hyphens, a letter or digit at both ends)", address, bucket)
	}
	if prefix != "" {
		prefix += "/"
	}
	return bucket, prefix, nil
}

// CheckAddress returns an error for an invalid address. It does not contact a server.
func CheckAddress(address string) error {
	_, _, err := parse(address)
	return err
}

// endpoint returns the server that the environment names, or Amazon's.
func endpoint() (host string, secure bool, region string, err error) {
	region = cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	text := cmp.Or(os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"))
	if text == "" {
		// Amazon's server reports a bucket's region, so region may be empty.
		return "s3.amazonaws.com", true, region, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" {
		return "", false, "", fmt.Errorf("AWS_ENDPOINT_URL is not the address of a server (hint: https://HOST or http://HOST:PORT)")
	}
	return u.Host, u.Scheme == "https", cmp.Or(region, "us-east-1"), nil
}

// probe puts an object twice under the condition that it does not exist. At least the
// second put must fail with 412 (precondition failed); a server that ignores
// conditions accepts both, and one that knows it cannot returns 501 (not
// implemented).
func (s *Store) probe(ctx context.Context) error {
	text := []byte("Programs that share this store found that it puts conditionally.\n")
	for range 2 {
		err := s.putBytes(ctx, probeName, text, true)
		switch code := status(err); {
		case code == 412:
			return nil
		case code == 501:
			return s.noConditionalPut()
		case err != nil:
			return s.explain("opening "+s.address, err)
		}
	}
	return s.noConditionalPut()
}

func (s *Store) noConditionalPut() error {
	return fmt.Errorf("opening %s: the server ignores the condition \"If-None-Match: *\" of a put, so that two machines could overwrite each other's files (hint: a newer server may have it; Amazon S3 does, and versitygw from 1.8.0 on)", s.address)
}

func (s *Store) key(name string) string { return s.prefix + name }

// URL returns the address of an object, for messages.
func (s *Store) URL(name string) string { return "s3://" + s.bucket + "/" + s.prefix + name }

// Object is a file in the store, as listed.
type Object struct {
	// Name is relative to the prefix, with slashes.
	Name string
	Size int64
	etag string
}

// List returns the files whose names begin with prefix, sorted by name. Objects whose
// names are not valid file names are left out.
func (s *Store) List(ctx context.Context, prefix string) ([]Object, error) {
	all, err := s.list(ctx, prefix)
	if err != nil {
		return nil, s.explain("listing "+s.URL(prefix), err)
	}
	files := all[:0]
	for _, o := range all {
		if isFile(o.Name) {
			files = append(files, o)
		}
	}
	return files, nil
}

// isFile reports whether a name may be a file in a results folder: a clean relative
// path that stays below the folder, without hidden parts. Other programs can write to
// the store too, and a name such as ../x must not lead out of the folder.
func isFile(name string) bool {
	return filepath.IsLocal(name) && path.Clean(name) == name && !strings.HasPrefix(name, ".") && !strings.Contains(name, "/.") && !strings.Contains(name, "\\")
}

// list lists all objects whose names begin with prefix, those of locks included. A
// failure on any page of the listing restarts it, so that pages of two attempts are
// never mixed.
func (s *Store) list(ctx context.Context, prefix string) (all []Object, err error) {
	err = s.retry(ctx, func() error {
		all = nil
		for o := range s.core.Client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.key(prefix), Recursive: true}) {
			if o.Err != nil {
				return o.Err
			}
			all = append(all, Object{strings.TrimPrefix(o.Key, s.prefix), o.Size, o.ETag})
		}
		return ctx.Err()
	})
	return all, err
}

// Remove removes a file. It is not an error if the file does not exist.
func (s *Store) Remove(ctx context.Context, name string) error {
	err := s.retry(ctx, func() error {
		return s.core.RemoveObject(ctx, s.bucket, s.key(name), minio.RemoveObjectOptions{})
	})
	return s.explain("removing "+s.URL(name), err)
}

// retry calls do until it succeeds, fails for a reason that waiting does not change,
// or has failed too often. The pauses double from pace/firstRetry up to pace.
func (s *Store) retry(ctx context.Context, do func() error) error {
	wait := s.pace / firstRetry
	for try := 1; ; try++ {
		err := do()
		if err == nil || ctx.Err() != nil {
			return cmp.Or(ctx.Err(), err)
		}
		if expired(err) && try == 1 {
			// Credentials that a helper renews are in a file by now: read it again,
			// once.
			s.creds.Expire()
		} else if !transient(err) || try == tries || try == triesUnreached && !s.reached && status(err) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		wait = min(2*wait, s.pace)
	}
}

// errTorn is the error of a download whose bytes do not have the recorded checksum,
// or whose object was replaced halfway.
var errTorn = errors.New("the bytes received are not those that were sent")
