// Workers that meet servers or peers as they please, or clients of federated rounds, as rows over time. No widgets here.
#pragma once

#include "gui/core/run.hpp"

#include <QBrush>
#include <QColor>
#include <QString>

#include <cstdint>
#include <vector>

class QPainter;
class QRectF;

namespace orrery {

// fetch: parameters from servers, or the model to a client. send: gradients, parameters or an update. update: a server's step, or a round.
// lost: training whose update nobody counts.
enum class CourseDoing : std::uint8_t { compute, fetch, send, update, mix, wait, lost };
inline constexpr int course_doing_count = 7;
QString label(CourseDoing doing); // "training in vain", translated
QColor colour(CourseDoing doing, bool dark);
Qt::BrushStyle pattern(CourseDoing doing);
void fill_course(QPainter& painter, const QRectF& rect, CourseDoing doing, bool dark);

struct CourseSpan {
    int row = 0;
    bool beside = false; // moves while the row does something else
    CourseDoing doing = CourseDoing::compute;
    double begin_s = 0, end_s = 0;
    QString what, detail; // "step 41", "uses weights of version 120, .."
};

struct WorkersCourse {
    std::vector<QString> rows;     // "servers", "worker 3"
    std::vector<CourseSpan> spans; // by begin
    std::vector<double> marks;     // ends of rounds
    double length_s = 0;
    bool beside = false;  // some spans are
    bool servers = false; // the first row is the servers'
    QString words;        // its figures, or why there is none
};

WorkersCourse course_of(const RunData& run);

} // namespace orrery
