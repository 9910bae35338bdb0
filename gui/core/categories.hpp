// The parts of a step's time, as they are drawn everywhere: order, colour, pattern and words of each category.
#pragma once

#include "sim/engine/simulate.hpp"
#include "topology/indexed.hpp"

#include <QBrush>
#include <QColor>
#include <QString>

#include <array>

class QPainter;
class QRectF;

namespace orrery {

// Useful work first, then what is lost: bars compare best when what should be equal begins at the same place.
inline constexpr std::array<Category, category_count> drawing_order = {
    Category::compute,    Category::recompute,  Category::optimizer,  Category::offload, Category::exposed_tp,     Category::exposed_cp,
    Category::exposed_ep, Category::exposed_pp, Category::exposed_dp, Category::other,   Category::straggler_wait, Category::bubble};

QString title(Category c);            // "tensor-parallel wait"
QColor colour(Category c, bool dark); // of Okabe and Ito's set or a shade of it
Qt::BrushStyle pattern(Category c);   // beside the colour: recompute, bubble and the like are told apart without it
bool is_dark(const class QPalette& palette);

// Fills a piece of a bar: the colour, and its pattern over it.
void fill_category(QPainter& painter, const QRectF& rect, Category c, bool dark);

// A bar of the whole breakdown across `rect`; `full` seconds are its width.
void paint_breakdown(QPainter& painter, const QRectF& rect, const ByEnum<Category, double, category_count>& seconds, double full,
                     bool dark);

// The category at x of such a bar, or -1.
int category_at(double x, const QRectF& rect, const ByEnum<Category, double, category_count>& seconds, double full);

// The same as text: "compute 61.2 %, bubble 20.1 %, ..": what is over half a per cent, largest first.
QString breakdown_text(const ByEnum<Category, double, category_count>& seconds);

} // namespace orrery
