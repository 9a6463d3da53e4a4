package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/minio/minio-go/v7"

	"scalewm/dataset/parallel"
	"scalewm/dataset/safefile"
)

const (
	// sumHeader is the metadata with the SHA-256 of the file. The ETag is not a
	// checksum of the content for multipart uploads.
	sumHeader = "X-Amz-Meta-Sha256"
	// maxParts is S3's limit for one object, see
	// https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html.
	maxParts    = 10000
	partsAtOnce = 4
)

// ErrOther is wrapped by errors of PutOnce when the store has different bytes under
// the file's name.
var ErrOther = errors.New("the store has another file of that name")

// Moved is called with the number of bytes transferred since the last call. Calls
// come from several goroutines. Bytes that are sent again after a failure are counted
// again.
type Moved func(bytes int)

// Snapshot is an open file at its size when it was opened. Bytes that are appended
// later, for instance to a log, are not part of it, so that checksum and upload cover
// the same bytes.
type Snapshot struct {
	// Name is the name in the store.
	Name string
	path string
	f    *os.File
	size int64
	sum  string
}

// Snapshot opens a file that will be uploaded as name. The caller must close it.
func (s *Store) Snapshot(name, path string) (*Snapshot, error) {
	f, err := safefile.Open(path, safefile.MaxData)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Snapshot{Name: name, path: path, f: f, size: st.Size()}, nil
}

// Close closes the file.
func (p *Snapshot) Close() error { return p.f.Close() }

// Size returns the length in bytes.
func (p *Snapshot) Size() int64 { return p.size }

// Sum returns the SHA-256 in hex. It is computed at the first call, so Sum must not
// be called from several goroutines at once.
func (p *Snapshot) Sum() (string, error) {
	if p.sum != "" {
		return p.sum, nil
	}
	sum, err := sumOf(io.NewSectionReader(p.f, 0, p.size))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", p.path, err)
	}
	p.sum = sum
	return sum, nil
}

func sumOf(r io.Reader) (string, error) {
	h := sha256.New()
	_, err := io.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), err
}

// PutOnce uploads a file that never changes. If the store has the same bytes under
// that name, nothing is sent; if it has other bytes, the error wraps ErrOther. Of
// several machines that upload one name at once, one succeeds and the others compare
// checksums with it.
func (s *Store) PutOnce(ctx context.Context, p *Snapshot, moved Moved) error {
	sum, err := p.Sum()
	if err != nil {
		return err
	}
	there, err := s.sum(ctx, p.Name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.put(ctx, p, true, moved); err == nil {
			return nil
		}
		if superseded(err) {
			// Another machine was faster, or our own put succeeded and its answer was
			// lost. Either way the checksum decides.
			there, err = s.sum(ctx, p.Name)
		}
	}
	if err == nil && there != sum {
		err = fmt.Errorf("%w, with the SHA-256 %.12s, and that of %s is %.12s (hint: they were made on different kinds of device, or by different commands; choose another prefix, or delete one of them)", ErrOther, there, p.path, sum)
	}
	return s.explain(fmt.Sprintf("pushing %s to %s", p.path, s.URL(p.Name)), err)
}

// Put uploads a file and replaces the one that the store has.
func (s *Store) Put(ctx context.Context, p *Snapshot, moved Moved) error {
	_, err := p.Sum()
	if err == nil {
		err = s.put(ctx, p, false, moved)
	}
	// retry repeated an upload that had succeeded, because its answer was lost.
	if superseded(err) {
		if there, err2 := s.sum(ctx, p.Name); err2 == nil && there == p.sum {
			err = nil
		}
	}
	return s.explain(fmt.Sprintf("pushing %s to %s", p.path, s.URL(p.Name)), err)
}

// sum returns the recorded SHA-256 of a file in the store, or fs.ErrNotExist.
func (s *Store) sum(ctx context.Context, name string) (sum string, err error) {
	err = s.retry(ctx, func() error {
		o, err := s.core.StatObject(ctx, s.bucket, s.key(name), minio.StatObjectOptions{})
		sum = o.Metadata.Get(sumHeader)
		return err
	})
	if status(err) == http.StatusNotFound && response(err).Code != "NoSuchBucket" {
		return "", fs.ErrNotExist
	}
	return sum, err
}

// options returns the options of a put. The condition belongs into the request that
// makes the object visible: the put itself, or the completion of a multipart upload.
func options(once bool) minio.PutObjectOptions {
	// No checksums per chunk: the request already has the SHA-256 of the content.
	o := minio.PutObjectOptions{DisableContentSha256: true}
	if once {
		// The header If-None-Match: * fails the request if any object has the name.
		o.SetMatchETagExcept("*")
	}
	return o
}

// put uploads a file in one request, or in parts if it is large.
func (s *Store) put(ctx context.Context, p *Snapshot, once bool, moved Moved) error {
	if p.size > s.part {
		return s.putParts(ctx, p, once, moved)
	}
	o := options(once)
	o.UserMetadata = map[string]string{"Sha256": p.sum}
	return s.retry(ctx, func() error {
		return s.watch(ctx, io.NewSectionReader(p.f, 0, p.size), moved, func(ctx context.Context, r *watched) error {
			_, err := s.core.PutObject(ctx, s.bucket, s.key(p.Name), r, p.size, "", p.sum, o)
			return err
		})
	})
}

// putBytes uploads a small text, without a checksum in its metadata.
func (s *Store) putBytes(ctx context.Context, name string, text []byte, once bool) error {
	sum, err := sumOf(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.retry(ctx, func() error {
		_, err := s.core.PutObject(ctx, s.bucket, s.key(name), bytes.NewReader(text), int64(len(text)), "", sum, options(once))
		return err
	})
}

// putParts uploads a large file in parts. The object becomes visible when the upload
// is completed, and a race between uploads is decided then. Afterwards all incomplete
// uploads of the name are removed, since they take up space invisibly: those of
// killed processes, and those of slower ones, which then fail as superseded and find
// the file in the store.
func (s *Store) putParts(ctx context.Context, p *Snapshot, once bool, moved Moved) (err error) {
	key := s.key(p.Name)
	o := options(false)
	o.UserMetadata = map[string]string{"Sha256": p.sum}
	var id string
	err = s.retry(ctx, func() error { id, err = s.core.NewMultipartUpload(ctx, s.bucket, key, o); return err })
	if err != nil {
		return err
	}
	// S3 allows a limited number of parts, so those of a very large file are larger.
	each := max(s.part, (p.size+maxParts-1)/maxParts)
	parts := make([]minio.CompletePart, (p.size+each-1)/each)
	err = parallel.For(ctx, partsAtOnce, len(parts), func(_, i int) error {
		part := func() *io.SectionReader {
			return io.NewSectionReader(p.f, int64(i)*each, min(each, p.size-int64(i)*each))
		}
		sum, err := sumOf(part())
		if err != nil {
			return err
		}
		return s.retry(ctx, func() error {
			return s.watch(ctx, part(), moved, func(ctx context.Context, r *watched) error {
				done, err := s.core.PutObjectPart(ctx, s.bucket, key, id, i+1, r, part().Size(), minio.PutObjectPartOptions{Sha256Hex: sum, DisableContentSha256: true})
				parts[i] = minio.CompletePart{PartNumber: i + 1, ETag: done.ETag}
				return err
			})
		})
	})
	if err == nil {
		err = s.retry(ctx, func() error {
			_, err := s.core.CompleteMultipartUpload(ctx, s.bucket, key, id, parts, options(once))
			return err
		})
	}
	if err == nil {
		err = s.retry(ctx, func() error { return s.core.RemoveIncompleteUpload(ctx, s.bucket, key) })
	}
	// Abort the upload in any case, even when ctx was cancelled, but within a short
	// time. An error of the abort is ignored: err is the cause.
	if err != nil {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), s.pace/polls)
		defer stop()
		s.core.AbortMultipartUpload(ctx, s.bucket, key, id)
	}
	return err
}

// Get downloads a file to path. The file gets its name only when its checksum is
// right. A transfer that breaks off resumes where it stopped.
func (s *Store) Get(ctx context.Context, name, path string, moved Moved) error {
	err := safefile.Fill(path, func(f *os.File) error {
		d := download{s: s, key: s.key(name), f: f, sum: sha256.New()}
		for {
			// retry limits failures in a row. An attempt that made progress starts
			// the count again, so that a large file arrives over a connection that
			// breaks often.
			before := d.at
			err := s.retry(ctx, func() error { return s.watch(ctx, nil, moved, d.more) })
			if err == nil || ctx.Err() != nil || d.at <= before || !transient(err) {
				return err
			}
		}
	})
	return s.explain("pulling "+s.URL(name), err)
}

// download is the state of a download across several transfers.
type download struct {
	s   *Store
	key string
	f   *os.File
	// at is the number of bytes received and written to f; sum covers the same bytes.
	at int64
	// etag is that of the object when the download started.
	etag string
	sum  hash.Hash
}

// more requests the bytes from at to the end. Resuming requires the same object: the
// request has the ETag of the first transfer as its condition.
func (d *download) more(ctx context.Context, r *watched) error {
	o := minio.GetObjectOptions{}
	if d.at > 0 {
		o.SetMatchETag(d.etag)
		o.SetRange(d.at, 0)
	}
	body, info, header, err := d.s.core.GetObject(ctx, d.s.bucket, d.key, o)
	// The object was replaced in the meantime; what we have is part of the old one.
	if status(err) == http.StatusPreconditionFailed {
		return errors.Join(errTorn, d.restart())
	}
	if err != nil {
		return err
	}
	defer body.Close()
	want := header.Get(sumHeader)
	if want == "" {
		return fmt.Errorf("it has no checksum (hint: a file that another program put there; delete it, and let a machine that has it push it: scalewm reproduce … --remote)")
	}
	d.etag = info.ETag
	// size is the length of the requested range, not of the file.
	size := info.Size
	r.r = body
	n, err := io.Copy(io.MultiWriter(d.f, d.sum), r)
	d.at += n
	switch {
	case err != nil:
		return err
	case n < size:
		return io.ErrUnexpectedEOF
	case hex.EncodeToString(d.sum.Sum(nil)) != want:
		return errors.Join(errTorn, d.restart())
	}
	return nil
}

// restart discards everything received so far.
func (d *download) restart() error {
	d.at = 0
	d.sum.Reset()
	_, err := d.f.Seek(0, io.SeekStart)
	return errors.Join(err, d.f.Truncate(0))
}

// watch runs a transfer and cancels it if no byte moves for s.stall. A connection
// whose other end is gone can otherwise block until the kernel gives up, many minutes
// later.
func (s *Store) watch(ctx context.Context, r io.Reader, moved Moved, transfer func(context.Context, *watched) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	w := &watched{r: r, timer: time.AfterFunc(s.stall, func() { stop(errStalled) }), after: s.stall, moved: moved}
	defer w.timer.Stop()
	err := transfer(ctx, w)
	if err != nil && context.Cause(ctx) == errStalled {
		return errStalled
	}
	return err
}

var errStalled = errors.New("the transfer stalled")

// watched is a reader that restarts the timer of watch and reports progress.
type watched struct {
	r     io.Reader
	timer *time.Timer
	after time.Duration
	moved Moved
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	if n > 0 {
		w.timer.Reset(w.after)
		if w.moved != nil {
			w.moved(n)
		}
	}
	return n, err
}
