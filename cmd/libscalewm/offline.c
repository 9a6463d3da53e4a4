//go:build wheel

#define _GNU_SOURCE
// Replacements for the functions of libcurl and OpenSSL that Debian's libhdf5 uses to read from
// Amazon S3. This package never does that, so the wheel contains these instead of those
// libraries. They all fail.
#include <dlfcn.h>
#include <stddef.h>

#pragma GCC visibility push(hidden)

// Debian's static library is compiled for programs, in which stderr and stdout are at a
// link-time constant address. In a shared library they are not, so its references are redirected
// to these pointers, which an early constructor sets.
void* own_stderr __asm__("stderr");
void* own_stdout __asm__("stdout");
__attribute__((constructor(101))) static void find_streams(void) {
  own_stderr = *(void**)dlsym(RTLD_DEFAULT, "stderr");
  own_stdout = *(void**)dlsym(RTLD_DEFAULT, "stdout");
}

void* curl_easy_init(void) { return NULL; }
void curl_easy_cleanup(void* handle) { (void)handle; }
int curl_easy_perform(void* handle) { (void)handle; return 2; }  // CURLE_FAILED_INIT
int curl_easy_setopt(void* handle, int option, ...) { (void)handle; (void)option; return 2; }
int curl_easy_getinfo(void* handle, int info, ...) { (void)handle; (void)info; return 2; }
int curl_global_init(long flags) { (void)flags; return 2; }
void curl_global_cleanup(void) {}
void* curl_slist_append(void* list, const char* text) { (void)list; (void)text; return NULL; }
void curl_slist_free_all(void* list) { (void)list; }
const void* EVP_sha256(void) { return NULL; }
unsigned char* HMAC(const void* md, const void* key, int key_len, const unsigned char* d, size_t n, unsigned char* out, unsigned* len) {
  (void)md, (void)key, (void)key_len, (void)d, (void)n, (void)out, (void)len;
  return NULL;
}
unsigned char* SHA256(const unsigned char* d, size_t n, unsigned char* out) {
  (void)d, (void)n, (void)out;
  return NULL;
}
