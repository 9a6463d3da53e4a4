// Package remote keeps files of a results folder in an object store that speaks S3,
// under their own names, for machines that share no folder. A file is there whole or
// not at all; what is put once stays as it is; each carries its SHA-256, which the
// store checks when it is put and we check when it is read.
//
// It knows files and names, and nothing of what they hold.
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

// Store is the part of a bucket below a prefix.
type Store struct {
	address string // s3://bucket/prefix
	bucket  string
	prefix  string // "" or "runs/small/"
	core    *minio.Core
	creds   *credentials.Credentials
	pace    time.Duration // of all waiting: how often a lock is renewed
	stall   time.Duration // a transfer of which no byte moves for so long is begun again
	met     bool          // the server has answered
	part    int64         // bytes of a part of a file that has more, or else of more parts than a file can have
}

// Defaults, which tests shorten.
const (
	usualPace  = 30 * time.Second
	usualStall = time.Minute
	usualPart  = 16 << 20
)

// In units of the pace.
const (
	lockExpiry = 6  // a lock that was not renewed for so long is free
	looks      = 6  // per pace, at a lock that somebody has
	firstRetry = 60 // per pace; each further one waits twice as long, up to one pace
)

// How often a request is sent: for about a minute and a half, or two seconds where no server
// has answered yet.
const (
	tries      = 9
	triesFirst = 3
)

// probeName is an object that Open leaves. Its name, as that of locks, is none of a file.
const probeName = ".probe"

// Open finds the store of an address like s3://bucket/prefix, and refuses one that does not put
// conditionally. Server and credentials come from the variables and files that
// other S3 programs use: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID
// and its companions, or a profile of ~/.aws/credentials.
func Open(ctx context.Context, address string) (*Store, error) { return open(ctx, address, usualPace) }

func open(ctx context.Context, address string, pace time.Duration) (*Store, error) {
	bucket, prefix, err := parse(address)
	if err != nil {
		return nil, err
	}
	s := &Store{address: strings.TrimSuffix(address, "/"), bucket: bucket, prefix: prefix, pace: pace, stall: usualStall, part: usualPart,
		creds: credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}})}
	if v, err := s.creds.GetWithContext(nil); err != nil || v.AccessKeyID == "" {
		return nil, fmt.Errorf("opening %s: there are no credentials (hint: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write a profile to ~/.aws/credentials and name it in AWS_PROFILE)", address)
	}
	host, secure, region, err := endpoint()
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", address, err)
	}
	// All trying again is ours, see retry.
	s.core, err = minio.NewCore(host, &minio.Options{Creds: s.creds, Secure: secure, Region: region, MaxRetries: 1})
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", address, err)
	}
	err = s.probe(ctx)
	s.met = true
	return s, err
}

func parse(address string) (bucket, prefix string, err error) {
	rest, ok := strings.CutPrefix(address, "s3://")
	bucket, prefix, _ = strings.Cut(rest, "/")
	prefix = strings.TrimSuffix(prefix, "/")
	if !ok || bucket == "" || strings.ContainsAny(rest, "@?#\\ ") || prefix != "" && path.Clean("/"+prefix) != "/"+prefix {
		return "", "", fmt.Errorf("%q is no address of a store (hint: s3://BUCKET/PREFIX; the server is named by AWS_ENDPOINT_URL, and credentials by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)", address)
	}
	if err := s3utils.CheckValidBucketName(bucket); err != nil {
		return "", "", fmt.Errorf("%q: no store accepts the bucket %q (hint: 3 to 63 letters, digits, dots and hyphens, a letter or digit at both ends)", address, bucket)
	}
	if prefix != "" {
		prefix += "/"
	}
	return bucket, prefix, nil
}

// CheckAddress says what is wrong with an address, without asking a server.
func CheckAddress(address string) error {
	_, _, err := parse(address)
	return err
}

// endpoint is the server that the environment names, Amazon's unless it does.
func endpoint() (host string, secure bool, region string, err error) {
	region = cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	text := cmp.Or(os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"))
	if text == "" {
		return "s3.amazonaws.com", true, region, nil // which tells a bucket's region
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" {
		return "", false, "", fmt.Errorf("AWS_ENDPOINT_URL is not the address of a server (hint: https://HOST or http://HOST:PORT)")
	}
	return u.Host, u.Scheme == "https", cmp.Or(region, "us-east-1"), nil
}

// probe puts an object twice under the condition that it is not there. The second time must fail.
func (s *Store) probe(ctx context.Context) error {
	text := []byte("Programs that share this store found that it puts conditionally.\n")
	for range 2 {
		err := s.putBytes(ctx, probeName, text, true)
		switch code := status(err); {
		case code == 412:
			return nil
		case code == 501:
			return s.unfit()
		case err != nil:
			return s.explain("opening "+s.address, err)
		}
	}
	return s.unfit()
}

func (s *Store) unfit() error {
	return fmt.Errorf("opening %s: the server ignores the condition \"If-None-Match: *\" of a put, so that two machines could overwrite each other's files (hint: a newer server may have it; Amazon S3 does, and versitygw from 1.8.0 on)", s.address)
}

func (s *Store) key(name string) string { return s.prefix + name }

// URL names an object for a person.
func (s *Store) URL(name string) string { return "s3://" + s.bucket + "/" + s.prefix + name }

// Object is a file in the store, as a listing shows it.
type Object struct {
	Name string // below the prefix, with slashes
	Size int64
	etag string
}

// List lists the files whose names begin with prefix, in the order of their names.
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

// isFile says whether a name is one of a file in a results folder: no path out of it, and nothing hidden.
func isFile(name string) bool {
	return filepath.IsLocal(name) && path.Clean(name) == name && !strings.HasPrefix(name, ".") && !strings.Contains(name, "/.") && !strings.Contains(name, "\\")
}

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

// Remove removes a file; one that is not there is no error.
func (s *Store) Remove(ctx context.Context, name string) error {
	err := s.retry(ctx, func() error {
		return s.core.RemoveObject(ctx, s.bucket, s.key(name), minio.RemoveObjectOptions{})
	})
	return s.explain("removing "+s.URL(name), err)
}

// retry does something until it is done, fails for good or has failed too often.
func (s *Store) retry(ctx context.Context, do func() error) error {
	wait := s.pace / firstRetry
	for try := 1; ; try++ {
		err := do()
		if err == nil || ctx.Err() != nil {
			return cmp.Or(ctx.Err(), err)
		}
		if expired(err) && try == 1 {
			s.creds.Expire() // what renews them may have written the file anew
		} else if !transient(err) || try == tries || try == triesFirst && !s.met && status(err) == 0 {
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

// errTorn is a transfer that did not bring what was sent.
var errTorn = errors.New("what came is not what was sent")
