// A cluster drawn as nodes, switches and links; a link is coloured and as wide as it is used.
#pragma once

#include <QPolygonF>
#include <QWidget>

#include "gui/topology/load.hpp"

#include <optional>
#include <vector>

namespace orrery {

class ClusterPlot : public QWidget {
    Q_OBJECT
  public:
    explicit ClusterPlot(QWidget* parent = nullptr);
    void setPicture(std::optional<ClusterPicture> picture);
    void setUse(std::vector<double> by_series);                            // shares of the capacity
    void setEmptyWords(const QString& words) { empty_ = words, update(); } // shown where there is no picture
    void setCurrentSeries(int series);
    QSize sizeHint() const override { return {600, 320}; }

    // Names of vertices where there is room for them: none lies on another or on a vertex, none is cut off.
    struct Label {
        QRectF at;
        QString name;
    };
    std::vector<Label> labels() const;
    QRectF shape(int vertex) const; // where it is drawn: apart from those beside it

  Q_SIGNALS:
    void chosen(int series);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    bool event(QEvent* event) override;

  private:
    QPointF place(int vertex) const;
    double roomOf(int vertex) const;
    QPolygonF course(const ClusterPicture::Edge& edge) const;
    int edgeAt(const QPointF& at) const;
    void paintScale(QPainter& painter) const;
    void paintVertices(QPainter& painter) const;
    double use(const ClusterPicture::Edge& edge) const;

    std::optional<ClusterPicture> picture_;
    QString empty_;
    std::vector<double> use_;
    int current_ = -1;
};

// From blue over yellow to red; nothing: grey.
QColor use_colour(double share, bool dark);

} // namespace orrery
