#include "gui/core/categories.hpp"
#include "gui/core/tr.hpp"
#include "topology/indexed.hpp"

#include <QLocale>
#include <QPainter>
#include <QPalette>

#include <algorithm>
#include <numeric>
#include <vector>

namespace orrery {

QString title(Category c) {
    switch (c) {
    case Category::compute:
        return tr("compute");
    case Category::recompute:
        return tr("recompute");
    case Category::exposed_tp:
        return tr("tensor-parallel wait");
    case Category::exposed_cp:
        return tr("context-parallel wait");
    case Category::exposed_ep:
        return tr("expert-parallel wait");
    case Category::exposed_pp:
        return tr("pipeline transfers");
    case Category::exposed_dp:
        return tr("data-parallel wait");
    case Category::optimizer:
        return tr("optimizer");
    case Category::offload:
        return tr("offload");
    case Category::bubble:
        return tr("bubble");
    case Category::straggler_wait:
        return tr("wait for slower devices");
    case Category::other:
        return tr("other (copies, host)");
    }
    return {};
}

// Okabe and Ito's eight, with two shades: blue is work, orange and its neighbours communication, grey what is idle.
QColor colour(Category c, bool dark) {
    switch (c) {
    case Category::compute:
        return QColor(0, 114, 178);
    case Category::recompute:
        return QColor(86, 180, 233);
    case Category::optimizer:
        return QColor(0, 158, 115);
    case Category::offload:
        return QColor(140, 205, 180);
    case Category::exposed_tp:
        return QColor(230, 159, 0);
    case Category::exposed_cp:
        return QColor(240, 228, 66);
    case Category::exposed_ep:
        return QColor(204, 121, 167);
    case Category::exposed_pp:
        return QColor(213, 94, 0);
    case Category::exposed_dp:
        return QColor(150, 90, 160);
    case Category::bubble:
    case Category::straggler_wait:
        return dark ? QColor(70, 76, 86) : QColor(221, 224, 229);
    case Category::other:
        return dark ? QColor(130, 136, 146) : QColor(150, 156, 164);
    }
    return {};
}

Qt::BrushStyle pattern(Category c) {
    switch (c) {
    case Category::recompute:
        return Qt::Dense6Pattern;
    case Category::offload:
        return Qt::HorPattern;
    case Category::exposed_cp:
        return Qt::VerPattern;
    case Category::exposed_dp:
        return Qt::CrossPattern;
    case Category::bubble:
        return Qt::BDiagPattern;
    case Category::straggler_wait:
        return Qt::FDiagPattern;
    default:
        return Qt::NoBrush;
    }
}

bool is_dark(const QPalette& palette) { return palette.color(QPalette::Base).lightness() < 128; }

void fill_category(QPainter& painter, const QRectF& rect, Category c, bool dark) {
    painter.fillRect(rect, colour(c, dark));
    const Qt::BrushStyle style = pattern(c);
    if (style == Qt::NoBrush || rect.width() < 2) return;
    QColor ink = dark ? QColor(255, 255, 255, 70) : QColor(0, 0, 0, 70);
    painter.fillRect(rect, QBrush(ink, style));
}

void paint_breakdown(QPainter& painter, const QRectF& rect, const ByEnum<Category, double, category_count>& seconds, double full,
                     bool dark) {
    if (full <= 0) return;
    double sum = 0;
    for (Category c : drawing_order) {
        const double next = sum + seconds[c];
        const double from = rect.left() + rect.width() * sum / full, to = rect.left() + rect.width() * next / full;
        if (to > from) fill_category(painter, QRectF(from, rect.top(), to - from, rect.height()), c, dark);
        sum = next;
    }
}

int category_at(double x, const QRectF& rect, const ByEnum<Category, double, category_count>& seconds, double full) {
    const double at = (x - rect.left()) / rect.width() * full;
    double sum = 0;
    for (Category c : drawing_order) {
        const double next = sum + seconds[c];
        if (at >= sum && at < next) return static_cast<int>(c);
        sum = next;
    }
    return -1;
}

QString breakdown_text(const ByEnum<Category, double, category_count>& seconds) {
    const double total = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    std::vector<Category> order(drawing_order.begin(), drawing_order.end());
    std::stable_sort(order.begin(), order.end(), [&](Category a, Category b) { return seconds[a] > seconds[b]; });
    QStringList parts;
    for (Category c : order) {
        const double share = total > 0 ? seconds[c] / total : 0;
        if (share >= 0.005) parts << tr("%1 %2 %").arg(title(c), QLocale().toString(share * 100, 'f', 1));
    }
    return parts.join(QStringLiteral(", "));
}

} // namespace orrery
