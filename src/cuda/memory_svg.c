/* A picture of the device's memory: a row for each segment, a box for each block, its numbers in a tooltip. */
#include "cuda/device.h"

enum { WIDTH = 1000, ROW = 18, LEFT = 10, TOP = 40 };

static const char *const states[] = {"free", "used", "waiting"};

static void draw_block(const mlsi_cuda_block *b, double scale, int y, mlsi_text *out) {
    const mlsi_cuda_segment *s = b->segment;
    mlsi_text_add(out,
                  "<rect class=\"%s\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\"><title>",
                  states[b->state], LEFT + (double)(b->address - s->address) * scale, y,
                  (double)b->bytes * scale, ROW - 4);
    if (b->state == MLSI_BLOCK_FREE)
        mlsi_text_add(out, "%llu bytes free", (unsigned long long)b->bytes);
    else
        mlsi_text_add(out, "allocation %llu, %s: %llu bytes asked, %llu taken",
                      (unsigned long long)b->number, states[b->state], (unsigned long long)b->asked,
                      (unsigned long long)b->bytes);
    mlsi_text_add(out, " at %p + %llu</title></rect>\n", (void *)s->address,
                  (unsigned long long)(b->address - s->address));
}

static void draw(const mlsi_accel *d, mlsi_text *out) {
    const mlsi_cuda_memory *m = &d->memory;
    uint64_t most = 1;
    int rows = 0;
    for (const mlsi_cuda_segment *s = m->segments; s; s = s->next, rows++)
        if (s->bytes > most) most = s->bytes;
    double scale = (double)(WIDTH - 2 * LEFT) / (double)most;
    mlsi_text_add(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
        "font-family=\"sans-serif\" font-size=\"13\">\n<style>.used{fill:#3b6ea5}"
        ".waiting{fill:#e0a030}.free{fill:#e4e4e4}rect{stroke:#fff;stroke-width:.5}"
        "</style>\n<text x=\"%d\" y=\"24\">CUDA device %d: %llu bytes used, %llu kept, at "
        "most %llu used; %d segments</text>\n",
        WIDTH, TOP + rows * ROW + 10, LEFT, d->index, (unsigned long long)m->used,
        (unsigned long long)(m->held - m->used), (unsigned long long)m->most, rows);
    int y = TOP;
    for (const mlsi_cuda_segment *s = m->segments; s; s = s->next, y += ROW)
        for (const mlsi_cuda_block *b = s->first; b; b = b->right)
            draw_block(b, scale, y, out);
    mlsi_text_add(out, "</svg>\n");
}

/* Nothing of the driver: also of a device that failed. */
mlsys_status mlsi_cuda_memory_svg(mlsi_accel *d, mlsi_text *out) {
    pthread_mutex_lock(&d->lock);
    draw(d, out);
    pthread_mutex_unlock(&d->lock);
    return out->st;
}
