// A pool of threads that step many data in one call.
#include "api.h"

#ifdef MJC_BUILT

#include <pthread.h>
#include <stdlib.h>

struct mjc_pool {
  pthread_mutex_t lock;
  pthread_cond_t work, done;
  int threads, stop;
  unsigned round;  // counts calls of mjc_pool_step
  int busy;        // threads that have not finished this round
  mjc_data** data;
  int count, n;
  int next, bad;  // atomics: next one to step, how many failed
  pthread_t thread[];
};

static void share(mjc_pool* p) {
  int i;
  while ((i = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED)) < p->count) {
    if (mjc_run(p->data[i], MJC_STEP, p->n) != MJC_OK) __atomic_fetch_add(&p->bad, 1, __ATOMIC_RELAXED);
  }
}

static void* worker(void* arg) {
  mjc_pool* p = arg;
  unsigned seen = 0;
  pthread_mutex_lock(&p->lock);
  for (;;) {
    while (p->round == seen && !p->stop) pthread_cond_wait(&p->work, &p->lock);
    if (p->stop) break;
    seen = p->round;
    pthread_mutex_unlock(&p->lock);
    share(p);
    pthread_mutex_lock(&p->lock);
    if (!--p->busy) pthread_cond_signal(&p->done);
  }
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

// mjc_pool_new starts one thread less than asked for: the caller's works too.
mjc_pool* mjc_pool_new(int threads) {
  mjc_pool* p = calloc(1, sizeof *p + sizeof(pthread_t) * (size_t)threads);
  if (!p) return NULL;
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->work, NULL);
  pthread_cond_init(&p->done, NULL);
  for (; p->threads < threads - 1; p->threads++) {
    if (pthread_create(&p->thread[p->threads], NULL, worker, p)) break;
  }
  return p;
}

void mjc_pool_free(mjc_pool* p) {
  pthread_mutex_lock(&p->lock);
  p->stop = 1;
  pthread_cond_broadcast(&p->work);
  pthread_mutex_unlock(&p->lock);
  for (int i = 0; i < p->threads; i++) pthread_join(p->thread[i], NULL);
  pthread_cond_destroy(&p->work);
  pthread_cond_destroy(&p->done);
  pthread_mutex_destroy(&p->lock);
  free(p);
}

int mjc_pool_step(mjc_pool* p, mjc_data** data, int count, int n) {
  pthread_mutex_lock(&p->lock);
  p->data = data, p->count = count, p->n = n;
  p->next = p->bad = 0;
  p->busy = p->threads;
  p->round++;
  pthread_cond_broadcast(&p->work);
  pthread_mutex_unlock(&p->lock);
  share(p);
  pthread_mutex_lock(&p->lock);
  while (p->busy) pthread_cond_wait(&p->done, &p->lock);
  pthread_mutex_unlock(&p->lock);
  return p->bad;
}

#endif
